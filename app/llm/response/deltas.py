"""What comes of a response, in few pieces: servers send each token by itself."""

from app.llm.types import CallProgress, ReasoningDelta, TextDelta

Delta = TextDelta | ReasoningDelta | CallProgress


class Deltas:
    """Collects what chunks add: neighbouring pieces of one text are one, and of a call only the latest counts."""

    def __init__(self) -> None:
        self._whole: list[Delta] = []
        self._kind: type[TextDelta | ReasoningDelta] = TextDelta
        self._pieces: list[str] = []
        """Of the text that goes on, which is of that kind."""
        self._calls: dict[int, CallProgress] = {}
        """Of the calls that go on, by their index."""

    def text(self, piece: str) -> None:
        """More of the answer."""
        self._more(TextDelta, piece)

    def reasoning(self, piece: str) -> None:
        """More of the reasoning."""
        self._more(ReasoningDelta, piece)

    def call(self, progress: CallProgress) -> None:
        """More of a call."""
        if self._pieces:
            self._end()
        self._calls[progress.index] = progress

    def take(self) -> list[Delta]:
        """All of it, in its order; it is empty then."""
        self._end()
        whole, self._whole = self._whole, []
        return whole

    def _more(self, kind: type[TextDelta | ReasoningDelta], piece: str) -> None:
        if self._kind is not kind or self._calls:
            self._end()
            self._kind = kind
        self._pieces.append(piece)

    def _end(self) -> None:
        if self._pieces:
            self._whole.append(self._kind("".join(self._pieces)))
            self._pieces = []
        self._whole += self._calls.values()
        self._calls = {}

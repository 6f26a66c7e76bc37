"""Side questions and their answers, among other events."""

from app.conversation.events import SideAnswer, SideQuestion, ThreadAnchor, UserMessage, side_thread_of


def test_what_a_question_and_its_answer_are_about() -> None:
    events = [
        UserMessage(id=1, text="a"),
        SideQuestion(id=2, uid="q1", proposal="P1", path="a.py", hunk="h", text="why?"),
        SideQuestion(id=3, uid="q2", proposal="P1", path="b.py", text="why?"),
        SideAnswer(id=4, question="q1", proposal="P1", text="Because.", state="complete"),
        SideAnswer(id=5, question="gone", proposal="P1", text="Because.", state="complete"),
    ]
    about_hunk, about_file = ThreadAnchor("P1", "a.py", "h"), ThreadAnchor("P1", "b.py", "")
    assert [side_thread_of(events, number) for number in range(1, 7)] == [
        None,
        about_hunk,
        about_file,
        about_hunk,
        None,
        None,
    ]

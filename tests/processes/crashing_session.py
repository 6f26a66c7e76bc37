"""A scripted session for the crash test, which kills it; it prints each completed operation."""

import asyncio
import random
import sys
from pathlib import Path

from app.proposals.values.proposal_errors import ProposalError
from app.runtime.model_connection import connect_model, create_or_resume_session
from app.runtime.open_workspace import open_workspace


async def main(root: Path, base_url: str, seed: int) -> None:
    """Send messages, approve and deny until killed."""
    dice = random.Random(seed)
    runtime = open_workspace(root, {"base_url": base_url, "model": "test-model"}, {})
    runtime.service.recover()
    model = connect_model(runtime)
    session = create_or_resume_session(runtime, model, runtime.sessions.latest())
    print("ready", flush=True)
    while True:
        pending = runtime.service.pending()
        if pending and dice.random() < 0.7:
            proposal = pending[0]
            try:
                if dice.random() < 0.6:
                    await session.approve(proposal.id)
                    print(f"approved {proposal.id}", flush=True)
                else:
                    feedback = f"Not {proposal.id}.\nOtherwise, please."
                    await session.deny(proposal.id, feedback=feedback if dice.random() < 0.5 else "")
                    print(f"denied {proposal.id}", flush=True)
            except ProposalError as error:
                print(f"refused {proposal.id}: {error}", flush=True)
        else:
            text = f"message {dice.random()}"
            await session.send(text)
            print(f"said {text}", flush=True)
        await session.wait_until_idle()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

"""Feedback waits until a request in which the model may act has carried it, and until a proposal revises."""

import pytest

from app.agent.gate import UnansweredFeedback
from app.conversation.events import (
    Decision,
    Event,
    ProposalDecided,
    ProposalStaged,
    RequestSent,
    TurnStarted,
)
from app.proposals.values.decision_facts import LineComment

DENIED = ProposalDecided(proposal="P1", decision=Decision.DENIED, feedback="Not so.")


def staged(proposal: str, supersedes: str = "") -> ProposalStaged:
    return ProposalStaged(proposal=proposal, summary="", files=(), calls=(), supersedes=supersedes)


def after(*events: Event) -> UnansweredFeedback:
    feedback = UnansweredFeedback()
    for event in events:
        feedback.apply(event)
    return feedback


def test_a_closing_request_does_not_deliver_it() -> None:
    assert after(DENIED).undelivered
    assert after(DENIED, RequestSent(closing=True)).undelivered
    assert not after(DENIED, RequestSent(closing=True), RequestSent()).undelivered


@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.PARTLY_APPROVED])
def test_words_with_an_approval_are_delivered_but_no_proposal_answers_them(decision: Decision) -> None:
    approved = after(ProposalDecided(proposal="P1", decision=decision, feedback="Nice."))
    assert approved.undelivered
    assert approved.unanswered == ()


@pytest.mark.parametrize("decision", list(Decision))
def test_a_decision_without_words_asks_for_nothing(decision: Decision) -> None:
    assert not after(ProposalDecided(proposal="P1", decision=decision)).undelivered


def test_line_comments_are_feedback() -> None:
    comment = LineComment(path="a", line=1, side="new", quote="+x", text="Why?")
    assert after(ProposalDecided(proposal="P1", decision=Decision.DENIED, comments=(comment,))).undelivered


def test_it_is_answered_by_the_proposal_that_revises_and_by_no_other() -> None:
    assert after(DENIED, RequestSent()).unanswered == ("P1",)
    assert after(DENIED, RequestSent(), staged("P2")).unanswered == ("P1",)
    assert after(DENIED, RequestSent(), staged("P3", supersedes="P1")).unanswered == ()


def test_of_several_denials_the_latest_comes_first() -> None:
    other = ProposalDecided(proposal="P2", decision=Decision.DENIED, feedback="Neither.")
    assert after(DENIED, other).unanswered == ("P2", "P1")
    assert after(DENIED, other, DENIED).unanswered == ("P1", "P2")


def test_what_is_taken_back_stays_said_but_is_answered_by_nothing() -> None:
    reopened = ProposalDecided(proposal="P1", decision=Decision.REOPENED)
    assert after(DENIED, reopened).undelivered
    assert after(DENIED, RequestSent(), reopened).unanswered == ()


def test_a_new_message_is_a_new_subject_once_the_feedback_was_delivered() -> None:
    assert after(DENIED, RequestSent(), TurnStarted(cause="message")).unanswered == ()
    assert after(DENIED, RequestSent(), TurnStarted(cause="answer")).unanswered == ("P1",)
    assert after(DENIED, TurnStarted(cause="message")).unanswered == ("P1",)

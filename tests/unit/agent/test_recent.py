from wharfinger.agent import recent
from wharfinger.agent.recent import Recent


def test_answers_are_kept_for_a_while_and_not_without_bound() -> None:
    now = 0.0
    answers: Recent[int] = Recent(lambda: now)
    answers.keep("first", 1)
    now = recent.KEPT_SECONDS
    answers.keep("second", 2)
    assert answers.get("first") == 1
    now += 1
    assert answers.get("first") is None
    answers.keep("third", 3)
    assert answers.get("first") is None
    assert answers.get("second") == 2
    for number in range(recent.KEPT_MOST):
        answers.keep(str(number), number)
    assert answers.get("third") is None
    assert answers.get("0") == 0

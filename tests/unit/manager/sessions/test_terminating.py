"""How many containers a call may end."""

from wharfinger.contracts.rpc import (
    LOG_LIMIT,
    EndAnswer,
    EndKernelsReply,
    EndOutcome,
    KernelContainer,
    KernelLog,
)
from wharfinger.manager.fleet.calls import LARGEST_REPLY
from wharfinger.manager.sessions.terminating import KERNELS_PER_CALL


def test_the_longest_logs_of_all_kernels_of_a_call_fit_into_its_reply() -> None:
    log = KernelLog.model_construct(data=b"x" * LOG_LIMIT, truncated=True)
    container = KernelContainer(kernel_id="k", container_id="c" * 64, state="exited", ended=True)
    answer = EndAnswer(kernel_id="k", outcome=EndOutcome.ENDED, container=container, log=log)
    reply = EndKernelsReply(answers=(answer,) * KERNELS_PER_CALL)
    assert len(reply.model_dump_json(by_alias=True)) < LARGEST_REPLY

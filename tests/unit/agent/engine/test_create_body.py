from dataclasses import replace

from wharfinger.agent.engine.create_body import create_body
from wharfinger.agent.engine.port import ContainerSpec

SPEC = ContainerSpec(
    name="one",
    image_id="sha256:" + "5c" * 32,
    labels={"a": "b"},
    command=("sh", "-c", "exit 3"),
    environment={"A": "b=c", "ODD": ' "$HOME"\n'},
    cpu=1500,
    mem=64 * 1024 * 1024,
    gpus=(),
    network="none",
)


def test_everything_asked_for_is_in_the_body() -> None:
    body = create_body(SPEC)
    assert body["Image"] == SPEC.image_id
    assert body["Labels"] == {"a": "b"}
    assert body["Cmd"] == ["sh", "-c", "exit 3"]
    assert body["Env"] == ["A=b=c", 'ODD= "$HOME"\n']
    host = body["HostConfig"]
    assert host["NanoCpus"] == 1_500_000_000
    assert host["Memory"] == host["MemorySwap"] == SPEC.mem
    assert host["NetworkMode"] == "none"


def test_no_container_has_a_privilege_or_a_life_of_its_own() -> None:
    host = create_body(SPEC)["HostConfig"]
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["AutoRemove"] is False


def test_what_is_not_asked_for_stays_the_images_or_the_engines() -> None:
    body = create_body(replace(SPEC, command=(), network="default"))
    assert not {"Cmd", "Entrypoint"} & body.keys()
    assert not {"NetworkMode", "DeviceRequests", "LogConfig"} & body["HostConfig"].keys()


def test_gpus_are_named_one_by_one() -> None:
    assert create_body(replace(SPEC, gpus=("0", "GPU-1")))["HostConfig"]["DeviceRequests"] == [
        {"Driver": "", "DeviceIDs": ["0", "GPU-1"], "Capabilities": [["gpu"]]}
    ]


def test_nothing_is_no_way_to_everything() -> None:
    host = create_body(replace(SPEC, cpu=0, mem=0))["HostConfig"]
    assert host["NanoCpus"] == 10_000_000
    assert host["Memory"] == host["MemorySwap"] == 6 * 1024 * 1024

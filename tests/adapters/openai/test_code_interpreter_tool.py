"""OpenAICodeInterpreterTool: the code interpreter bound to OpenAI."""

import dataclasses
from typing import Any

import pytest

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool, VfsPath
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    ExistingContainer,
    NetworkPolicy,
)
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.result import ToolResult

MOUNT = HostMount(
    host_path="sunfish",
    mount_path=VfsPath(("workspace", "sunfish")),
    include_glob=("*.py", "*.md", "*.txt"),
    exclude_glob=("**/__pycache__/**",),
    max_bytes=600_000,
)


def as_dict(mount: HostMount) -> dict[str, object]:
    """The mount in the form in which the document writes it into the payload."""
    return {
        "host_path": mount.host_path,
        "mount_path": str(mount.mount_path),
        "include_glob": list(mount.include_glob),
        "exclude_glob": list(mount.exclude_glob),
        "max_bytes": mount.max_bytes,
        "follow_symlinks": mount.follow_symlinks,
    }


def test_it_is_bound_to_openai_and_takes_nothing() -> None:
    """C12, C16: provider openai, typed result, no params, run by the provider."""
    tool = OpenAICodeInterpreterTool()

    assert isinstance(tool, ProviderTool)
    assert (tool.provider, tool.place) == ("openai", "provider")
    assert (tool.params_type, tool.result_type) == (None, CodeInterpreterResult)
    assert prepare(tool).declaration.parameters["properties"] == {}


def test_the_default_container_is_new_and_small() -> None:
    """C14: the smallest tier unless another is named."""
    assert OpenAICodeInterpreterTool().config.container == AutoContainer("1g")


@pytest.mark.parametrize("container", [AutoContainer("16g"), ExistingContainer("cntr_1", "4g")])
def test_a_typed_container_is_kept(container: AutoContainer | ExistingContainer) -> None:
    """C13: both kinds of container, typed."""
    tool = OpenAICodeInterpreterTool(container=container)

    assert tool.config.container == container
    assert tool.config == CodeInterpreterConfig(container)


def test_the_documents_example_can_be_declared() -> None:
    """C34: the container as a dict, with uploads and a host mount, and a pass-through hook."""

    def pass_through(
        result: CodeInterpreterResult, context: ToolContext
    ) -> ToolResult[CodeInterpreterResult]:
        return ToolResult(message=result.render(), value=result)

    tool = OpenAICodeInterpreterTool(
        name="openai_python",
        description="Executes model-authored Python in a sandboxed container.",
        container={
            "type": "auto",
            "memory_limit": "4g",
            "file_ids": ["file_csv_upload"],
            "host_mounts": [as_dict(MOUNT)],
        },
        handle_provider_output=pass_through,
    )

    assert tool.config.container == AutoContainer("4g", ("file_csv_upload",))
    assert tool.host_mounts == (MOUNT,)
    assert tool.handle_provider_output is pass_through


def test_host_mounts_can_be_given_as_they_are() -> None:
    """C28: mounts are uploads, so they are no part of the container."""
    by_field = OpenAICodeInterpreterTool(host_mounts=(MOUNT,))
    by_key = OpenAICodeInterpreterTool(container={"type": "auto", "host_mounts": [MOUNT]})

    assert by_field == by_key


def test_an_existing_container_can_be_a_dict() -> None:
    """C13: the document's form of a reference."""
    tool = OpenAICodeInterpreterTool(container={"id": "cntr_1", "memory_limit": "4g"})

    assert tool.config.container == ExistingContainer("cntr_1", "4g")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, None),
        ({"type": "disabled"}, NetworkPolicy()),
        ({"type": "allowlist", "allowed_domains": ["a.example"]}, NetworkPolicy(("a.example",))),
    ],
)
def test_a_network_policy_can_be_a_dict(policy: Any, expected: NetworkPolicy | None) -> None:
    """C13: the two policies that OpenAI knows."""
    tool = OpenAICodeInterpreterTool(container={"type": "auto", "network_policy": policy})

    assert tool.config.container == AutoContainer(network_policy=expected)


@pytest.mark.parametrize(
    "container",
    [
        {},
        {"type": "manual"},
        {"id": ""},
        {"id": "cntr_1", "memory_limit": "3g"},
        {"id": "cntr_1", "file_ids": ["file_1"]},
        {"type": "auto", "memory_limit": "3g"},
        {"type": "auto", "memory_limit": ""},
        {"type": "auto", "memory": "4g"},
        {"type": "auto", "file_ids": "file_1"},
        {"type": "auto", "file_ids": {"file_1": True}},
        {"type": "auto", "network_policy": {"type": "open"}},
        {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": []}},
        {"type": "auto", "host_mounts": ["sunfish"]},
        {"type": "auto", "host_mounts": {"host_path": "sunfish"}},
        {"type": "auto", "host_mounts": [{"host_path": "a", "path": "b"}]},
    ],
)
def test_an_unsound_container_is_refused(container: dict[str, Any]) -> None:
    """C15: before any request; an unknown key is refused and not dropped."""
    with pytest.raises(InvalidTool):
        OpenAICodeInterpreterTool(container=container)


def test_no_tier_in_a_dict_means_the_default() -> None:
    """C14: `null` is what the API takes for "you choose"; any other word must be a tier."""
    tool = OpenAICodeInterpreterTool(container={"type": "auto", "memory_limit": None})

    assert tool.config.container == AutoContainer("1g")


def test_host_mounts_are_checked_when_they_are_declared() -> None:
    """C28: what is no mount is refused here, not while files are uploaded; a list is copied."""
    given: Any = [MOUNT]
    wrong: Any = ("sunfish",)

    tool = OpenAICodeInterpreterTool(host_mounts=given)
    given.clear()

    assert tool.host_mounts == (MOUNT,)
    with pytest.raises(InvalidTool, match="'sunfish' in host_mounts is not a HostMount"):
        OpenAICodeInterpreterTool(host_mounts=wrong)


@pytest.mark.parametrize(
    ("mount", "fault"),
    [
        ({"host_path": "a", "mount_path": 5}, "HostMount.mount_path must be a VfsPath, not 5"),
        ({"mount_path": "/a"}, "HostMount.host_path must be a path"),
        ({"host_path": "a", "glob": "*"}, "the mount of 'a' has unknown keys glob"),
    ],
)
def test_a_mount_in_the_dict_form_says_what_is_wrong(mount: dict[str, Any], fault: str) -> None:
    """C28: the field and the mount are named."""
    with pytest.raises(UsageError, match=fault):
        OpenAICodeInterpreterTool(container={"type": "auto", "host_mounts": [mount]})


def test_a_mount_that_climbs_is_refused() -> None:
    """C28: the rules of HostMount hold for the dict form too."""
    with pytest.raises(UsageError, match="climbs"):
        OpenAICodeInterpreterTool(
            container={"type": "auto", "host_mounts": [{"host_path": "../etc"}]}
        )


def test_a_tool_with_mounts_is_not_declarable() -> None:
    """C28: the adapter stages the files first, and declares the tool without its mounts."""
    tool = OpenAICodeInterpreterTool(host_mounts=(MOUNT,))

    with pytest.raises(UsageError, match="has host_mounts, and no folder of the host is allowed"):
        tool.check_declarable()
    dataclasses.replace(tool, host_mounts=()).check_declarable()


def test_container_and_config_cannot_both_be_given() -> None:
    """Two answers to one question are refused."""
    with pytest.raises(InvalidTool, match="container= or config="):
        OpenAICodeInterpreterTool(container=AutoContainer(), config=CodeInterpreterConfig())


def test_it_stays_with_openai() -> None:
    """C12: the provider is fixed, and nothing of it runs here."""
    wrong: Any = {"handler": lambda params: None}  # pyright: ignore

    with pytest.raises(InvalidTool, match="OpenAI runs this tool"):
        OpenAICodeInterpreterTool(provider="azure")
    with pytest.raises(InvalidTool, match="OpenAI runs this tool"):
        OpenAICodeInterpreterTool(**wrong)


def test_a_copy_with_another_description_keeps_the_rest() -> None:
    """Overrides replace fields of a tool; this one can be copied like any other."""
    tool = OpenAICodeInterpreterTool(container=AutoContainer("4g"), host_mounts=(MOUNT,))
    changed = dataclasses.replace(tool, description="Other.")

    assert changed.description == "Other."
    assert (changed.container, changed.host_mounts) == (tool.container, tool.host_mounts)
    assert dataclasses.replace(changed, description=tool.description) == tool

"""`toolcrib.yaml` is found from a folder upwards and read with every fault at its line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import InvalidProject
from toolcrib.project import find_project_file, project_schema, read_project
from toolcrib.project.project import Project
from toolcrib.project.project_file import section_types


def write(folder: Path, text: str) -> Path:
    path = folder / "toolcrib.yaml"
    path.write_text(text, "utf-8")
    return path


def faults(folder: Path, text: str, *changes: str) -> list[str]:
    """The faults of a file, a line each, without the path."""
    path = write(folder, text)
    with pytest.raises(InvalidProject) as raised:
        read_project(path, changes)
    return [line.replace(f"{path}:", "") for line in str(raised.value).split("\n")]


def test_the_closest_file_above_the_folder_is_found(tmp_path: Path) -> None:
    """A command works the same in every folder of a project."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project_file(inner) is None or find_project_file(inner) != tmp_path / "a"
    outer = write(tmp_path, "")
    assert find_project_file(inner) == outer
    closer = write(tmp_path / "a", "")
    assert find_project_file(inner) == closer


def test_an_empty_file_is_a_project_without_settings(tmp_path: Path) -> None:
    """What is left out has its default."""
    project = read_project(write(tmp_path, "# nothing yet\n"))
    assert project == Project(file=tmp_path / "toolcrib.yaml")


def test_relative_paths_start_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project works from every folder below it."""
    (tmp_path / "policy.yaml").touch()
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    path = write(
        tmp_path,
        "policy: policy.yaml\nstore: crib.sqlite3\nserve:\n  tls: {cert: /etc/c.pem, key: k.pem}\n",
    )
    project = read_project(path)
    assert project.policy == tmp_path / "policy.yaml"
    assert project.store == tmp_path / "crib.sqlite3"
    assert project.serve.tls.cert == Path("/etc/c.pem")
    assert project.serve.tls.key == tmp_path / "k.pem"


def test_all_faults_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    """Mending a file takes one round, and a misspelt key is no default."""
    assert faults(
        tmp_path,
        "polcy: p.yaml\ntools:\n  file: [a.yaml]\nserve:\n  port: http\n",
    ) == [
        "1: polcy: unknown key 'polcy'; did you mean 'policy'?",
        "3: tools.file: unknown key 'file'; did you mean 'files'?",
        "5: serve.port: port must be a whole number",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("store: 5\n", "1: store: store must be text; put it in quotes"),
        (
            "model: {openai: gpt, adapter: 'a:b'}\n",
            "1: model: only one of these can be chosen; remove the others",
        ),
        ("model: {}\n", "1: model: this is empty; write one of its keys"),
        (
            "approver: mine\n",
            "1: approver: approver must be MODULE:NAME, like app.model:adapter",
        ),
        (
            "hosted_tools:\n  web_serch: true\n",
            "2: hosted_tools.web_serch: unknown key 'web_serch'; did you mean 'web_search'?",
        ),
        ("- a\n", "1: the file must be lines of key: value"),
        ("a: [\n", "2: this is not YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_a_fault_says_what_to_write(tmp_path: Path, text: str, fault: str) -> None:
    """A fault names its line, its key and what would be right."""
    assert faults(tmp_path, text) == [fault]


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    """A policy that cannot be read must not be taken for none."""
    assert faults(tmp_path, "store: s.db\npolicy: gone.yaml\ntools: {files: [t.yaml]}\n") == [
        f"2: policy: there is no file 'gone.yaml' in {tmp_path}",
        f"3: tools.files.0: there is no file 't.yaml' in {tmp_path}",
    ]


def test_a_fault_never_shows_the_value(tmp_path: Path) -> None:
    """Headers and environments hold secrets, and faults are printed."""
    text = (
        "mcp_servers:\n  a:\n    url: https://a.example\n    headers: {Authorization: [s3cret]}\n"
    )
    assert "s3cret" not in "\n".join(faults(tmp_path, text))


def test_a_project_does_not_show_the_secrets_of_its_servers(tmp_path: Path) -> None:
    """A project may be logged."""
    text = "mcp_servers:\n  a:\n    command: x\n    env: {KEY: s3cret}\n"
    assert "s3cret" not in repr(read_project(write(tmp_path, text)))


def test_instructions_are_text_or_a_file(tmp_path: Path) -> None:
    """Long instructions have a file of their own."""
    (tmp_path / "prompt.md").write_text("Be brief.\n", "utf-8")
    assert read_project(write(tmp_path, "instructions: Be kind.\n")).instructions == "Be kind."
    project = read_project(write(tmp_path, "instructions: {file: prompt.md}\n"))
    assert project.instructions == "Be brief.\n"
    assert project.instructions_file == tmp_path / "prompt.md"


def test_a_key_is_set_by_a_flag_over_the_file(tmp_path: Path) -> None:
    """Every key has a flag, and the flag wins."""
    path = write(tmp_path, "store: a.db\nserve:\n  port: 1\n")
    project = read_project(path, ["serve.port=2", "tools.modules=[shop]"])
    assert (project.serve.port, project.tools.modules) == (2, ("shop",))
    assert project.origin("store") == "toolcrib.yaml:1"
    assert project.origin("serve.port") == "flag --set serve.port"


def test_a_fault_of_a_set_key_names_the_flag(tmp_path: Path) -> None:
    """The file has no line for it."""
    assert faults(tmp_path, "", "serve.prot=1") == [
        "--set serve.prot: unknown key 'prot'; did you mean 'port'?"
    ]
    assert faults(tmp_path, "", "serve") == ["--set 'serve': write KEY=VALUE, like store=crib.db"]


def schema_keys(node: Any, path: str = "") -> set[str]:
    """The dotted names of the keys that the schema lists, down to those without keys of theirs."""
    schema = project_schema()
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    if path.startswith("hosted_tools.") or path in ("mcp_servers", "instructions"):
        return {path}
    node = node.get("items", node) if path == "notifications" else node
    if "properties" not in node:
        return {path}
    return {
        key
        for name, member in node["properties"].items()
        for key in schema_keys(member, f"{path}.{name}" if path else name)
    }


def section_keys(section: type[Any], path: str = "") -> set[str]:
    """The dotted names of the fields of a section."""
    keys: set[str] = set()
    for name, hint in section_types(section).items():
        if not path and name in ("file", "lines", "instructions_file"):
            continue
        inner = [kind for kind in (hint, *getattr(hint, "__args__", ())) if isinstance(kind, type)]
        sections = [kind for kind in inner if dataclasses.is_dataclass(kind)]
        full = f"{path}.{name}" if path else name
        keys |= section_keys(sections[0], full) if sections else {full}
    return keys


def test_the_schema_and_the_sections_have_the_same_keys() -> None:
    """A key that the schema allows and nothing reads would be accepted and ignored."""
    expected = {
        key.split(".")[0] if key.startswith("hosted_tools.") else key
        for key in schema_keys(project_schema())
    }
    assert section_keys(Project) == expected


def test_mcp_servers_have_the_form_that_they_have_in_host_tools_files() -> None:
    """A server can be moved from one file to the other."""
    other = json.loads(
        (Path(__file__).parents[2] / "src/toolcrib/host_tools/host-tools.schema.json").read_text()
    )
    own = project_schema()
    assert own["properties"]["mcp_servers"] == other["properties"]["mcp_servers"]
    assert own["$defs"]["mcp_server"] == other["$defs"]["mcp_server"]

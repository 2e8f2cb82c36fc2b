"""The checks on the built distributions notice what they are there for."""

import zipfile
from pathlib import Path

import pytest

from scripts.dist import contents, differences, metadata, package_files, page_files, run

METADATA = "Metadata-Version: 2.4\nName: toolcrib\nVersion: 1.2\n"


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_two_wheels_differ_by_name_or_by_content(tmp_path: Path) -> None:
    """A file that is missing, extra or changed is named."""
    left = wheel(tmp_path / "left.whl", {"same": "1", "changed": "1", "only_left": "1"})
    right = wheel(tmp_path / "right.whl", {"same": "1", "changed": "2", "only_right": "1"})

    unequal = differences(contents(left), contents(right))

    assert unequal == ["changed", "only_left", "only_right"]


def test_the_wheel_must_have_every_file_of_the_package(tmp_path: Path) -> None:
    """Data files count; compiled files do not."""
    package = tmp_path / "toolcrib"
    package.mkdir()
    for name in ("__init__.py", "py.typed", "cached.pyc"):
        (package / name).touch()

    assert sorted(package_files(package)) == ["toolcrib/__init__.py", "toolcrib/py.typed"]


def test_the_wheel_must_have_every_file_of_the_console(tmp_path: Path) -> None:
    """A wheel without the page, or with an older one, is not released."""
    page = tmp_path / "dist"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("new", "utf-8")
    (page / "assets" / "a.js.br").touch()
    place = "toolcrib/transports/http/page"
    old = wheel(tmp_path / "old.whl", {f"{place}/index.html": "old"})

    assert differences(contents(old), page_files(page)) == [
        f"{place}/assets/a.js.br",
        f"{place}/index.html",
    ]


def test_invalid_metadata_is_refused(tmp_path: Path) -> None:
    """A registry would refuse it at the upload, when the version is already tagged."""
    entry = "toolcrib-1.2.dist-info/METADATA"
    sound = wheel(tmp_path / "sound.whl", {entry: METADATA})
    broken = wheel(tmp_path / "broken.whl", {entry: METADATA.replace("1.2", "one")})

    assert str(metadata(sound).version) == "1.2"
    with pytest.raises(ExceptionGroup, match="invalid"):
        metadata(broken)


def test_a_failing_command_ends_the_recipe_with_its_output(tmp_path: Path) -> None:
    """The output of a step is shown only when the step fails."""
    with pytest.raises(SystemExit, match="it broke"):
        run("sh", "-c", "echo it broke; exit 3", cwd=tmp_path)


def test_a_step_does_not_see_this_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With PYTHONPATH set, the fresh environment would import the source and prove nothing."""
    monkeypatch.setenv("PYTHONPATH", "src")

    assert run("sh", "-c", 'echo "[$PYTHONPATH]"', cwd=tmp_path) == "[]\n"

"""Carries out one operation on one file under a root."""

from __future__ import annotations

from toolcrib.errors import PatchFailed
from toolcrib.tools.apply_patch.applying import apply_diff, text_of_new
from toolcrib.tools.apply_patch.config import ApplyPatchConfig
from toolcrib.tools.apply_patch.files import RootedFiles
from toolcrib.tools.apply_patch.hunks import read_hunks, split_lines
from toolcrib.tools.apply_patch.output import PatchParams, PatchResult
from toolcrib.tools.result import ToolResult


class Patcher:
    """The handler of the tool. What cannot be applied is a failed result, and changes nothing."""

    def __init__(self, config: ApplyPatchConfig) -> None:
        self._max_bytes = config.max_bytes
        protected = frozenset(name.lower() for name in config.protected)
        self._files = RootedFiles(config.root, config.max_bytes, protected)

    def __call__(self, params: PatchParams) -> ToolResult[PatchResult]:
        """Apply the patch."""
        try:
            return ToolResult(value=self._run(params))
        except PatchFailed as error:
            return ToolResult(message=f"The patch was not applied: {error}.", success=False)

    def _run(self, params: PatchParams) -> PatchResult:
        match params.operation:
            case "create_file":
                return self._create(params.path, self._diff(params))
            case "update_file":
                return self._update(params.path, self._diff(params))
            case "delete_file":
                self._files.delete(params.path)
                return PatchResult("delete_file", params.path)

    def _diff(self, params: PatchParams) -> str:
        if params.diff is None:
            raise PatchFailed(f"{params.operation} needs a diff")
        try:
            size = len(params.diff.encode())
        except UnicodeEncodeError:
            raise PatchFailed("the diff has characters that cannot be written as UTF-8") from None
        if size > self._max_bytes:
            raise PatchFailed(f"the diff has {size} bytes; the most allowed is {self._max_bytes}")
        return params.diff

    def _create(self, path: str, diff: str) -> PatchResult:
        text = text_of_new(diff)
        self._files.create(path, text.encode())
        return PatchResult("create_file", path, added=len(split_lines(text)[0]))

    def _update(self, path: str, diff: str) -> PatchResult:
        found = self._files.read(path)
        # What is not UTF-8 in the file passes through unchanged.
        text = found.data.decode(errors="surrogateescape")
        changed = apply_diff(text, diff)
        self._files.replace(path, found, changed.encode(errors="surrogateescape"))
        marks = [mark for hunk in read_hunks(diff) for mark, _ in hunk.lines]
        return PatchResult("update_file", path, marks.count("+"), marks.count("-"))

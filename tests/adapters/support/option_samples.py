"""For every option of the matrix a configuration that sets it, and as little else as can be."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolcrib.toolkits.apply_patch import ApplyPatchConfig
from toolcrib.toolkits.memory import MemoryConfig
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    ExistingContainer,
    NetworkPolicy,
)
from toolcrib.tools.computer import ComputerConfig
from toolcrib.tools.file_search import Comparison, FileSearchConfig, HybridWeights, Ranking
from toolcrib.tools.image_generation import ImageGenerationConfig, ImageMask, SvgAuthor
from toolcrib.tools.mcp import McpConfig, ToolFilter
from toolcrib.tools.program import ProgramConfig
from toolcrib.tools.shell import (
    ContainerShellConfig,
    HandlerShellConfig,
    LocalSkill,
    SkillReference,
)
from toolcrib.tools.tool_search import HandlerToolSearchConfig, ToolSearchConfig
from toolcrib.tools.web_fetch import WebFetchConfig
from toolcrib.tools.web_search import DomainFilter, GeoHint, WebSearchConfig
from toolcrib.tools.x_search import XSearchConfig

CONFIGS: list[tuple[str, type[Any]]] = [
    ("web_search", WebSearchConfig),
    ("x_search", XSearchConfig),
    ("web_fetch", WebFetchConfig),
    ("code_interpreter", CodeInterpreterConfig),
    ("file_search", FileSearchConfig),
    ("image_generation", ImageGenerationConfig),
    ("mcp", McpConfig),
    ("shell", ContainerShellConfig),
    ("shell", HandlerShellConfig),
    ("apply_patch", ApplyPatchConfig),
    ("memory", MemoryConfig),
    ("tool_search", ToolSearchConfig),
    ("tool_search", HandlerToolSearchConfig),
    ("program", ProgramConfig),
    ("computer", ComputerConfig),
]


@dataclass(frozen=True, slots=True)
class Sample:
    """An option, a configuration that sets it, and one like it that does not."""

    kind: str
    option: str
    config: Any
    plain: Any = None
    """None when the option cannot be left out."""
    along: tuple[str, ...] = ()
    """Other options that cannot but be set with it."""

    def __str__(self) -> str:
        return f"{self.kind}-{self.option}"


_ALLOWED, _BLOCKED = DomainFilter(allowed=("a.org",)), DomainFilter(blocked=("b.org",))
_BOTH = DomainFilter(("a.org",), ("b.org",))
_LISTS = ("domain_filter.allowed", "domain_filter.blocked")


def _search(option: str, along: tuple[str, ...] = (), **fields: Any) -> Sample:
    return Sample("web_search", option, WebSearchConfig(**fields), WebSearchConfig(), along)


def _posts(option: str, value: Any) -> Sample:
    return Sample("x_search", option, XSearchConfig(**{option: value}), XSearchConfig())


def _fetch(option: str, along: tuple[str, ...] = (), **fields: Any) -> Sample:
    return Sample("web_fetch", option, WebFetchConfig(**fields), WebFetchConfig(), along)


def _code(option: str, container: Any) -> Sample:
    return Sample(
        "code_interpreter", option, CodeInterpreterConfig(container), CodeInterpreterConfig()
    )


def _files(option: str, **fields: Any) -> Sample:
    plain = FileSearchConfig(("vs_1",))
    along = ("vector_store_ids",)
    return Sample("file_search", option, FileSearchConfig(("vs_1",), **fields), plain, along)


def _image(option: str, value: Any, along: tuple[str, ...] = (), **fields: Any) -> Sample:
    config = ImageGenerationConfig(**{option: value}, **fields)
    return Sample("image_generation", option, config, ImageGenerationConfig(**fields), along)


def _mcp(option: str, **fields: Any) -> Sample:
    base: dict[str, Any] = {
        "server_label": "s",
        "server_url": "https://mcp.example.org/",
        "require_approval": "never",
    }
    return Sample("mcp", option, McpConfig(**base | fields), McpConfig(**base), ("server_url",))


def _elsewhere(option: str, value: str) -> Sample:
    config = McpConfig(server_label="s", require_approval="never", **{option: value})  # pyright: ignore[reportArgumentType]
    return Sample("mcp", option, config)


def _shell(option: str, **fields: Any) -> Sample:
    return Sample("shell", option, ContainerShellConfig(**fields), ContainerShellConfig())


_SCREEN = ("environment", "display_width", "display_height")

SAMPLES: list[Sample] = [
    _search("domain_filter.allowed", domain_filter=_ALLOWED),
    _search("domain_filter.blocked", domain_filter=_BLOCKED),
    _search("domain_filter.both", _LISTS, domain_filter=_BOTH),
    _search("geo_hint.country_code", geo_hint=GeoHint(country_code="GB")),
    _search("geo_hint.city", geo_hint=GeoHint(city="London")),
    _search("geo_hint.region", geo_hint=GeoHint(region="Kent")),
    _search("geo_hint.timezone", geo_hint=GeoHint(timezone="Europe/London")),
    _search("geo_hint.empty", geo_hint=GeoHint()),
    _search("allow_live_access", allow_live_access=False),
    _search("search_context_size", search_context_size="high"),
    _search("max_uses", max_uses=3),
    _posts("allowed_handles", ("ann",)),
    _posts("excluded_handles", ("bob",)),
    _posts("from_date", datetime(2026, 1, 1, tzinfo=UTC)),
    _posts("to_date", datetime(2026, 2, 1, tzinfo=UTC)),
    _posts("reads_images", True),
    _posts("reads_videos", True),
    _fetch("domain_filter.allowed", domain_filter=_ALLOWED),
    _fetch("domain_filter.blocked", domain_filter=_BLOCKED),
    _fetch("domain_filter.both", _LISTS, domain_filter=_BOTH),
    _fetch("max_uses", max_uses=3),
    _fetch("citations", citations=True),
    _fetch("max_content_tokens", max_content_tokens=1000),
    _code("container.id", ExistingContainer("cntr_1")),
    _code("container.memory_limit", AutoContainer(memory_limit="4g")),
    _code("container.file_ids", AutoContainer(file_ids=("file_1",))),
    _code("container.network_policy", AutoContainer(network_policy=NetworkPolicy())),
    Sample(
        "code_interpreter",
        "allowed_callers",
        CodeInterpreterConfig(allowed_callers=("programmatic",)),
        CodeInterpreterConfig(),
    ),
    Sample(
        "file_search",
        "vector_store_ids",
        FileSearchConfig(("vs_1", "vs_2")),
        FileSearchConfig(("vs_1",)),
    ),
    _files("max_results", max_results=7),
    _files("filters", filters=Comparison("year", "gte", 2024)),
    _files("ranking.ranker", ranking=Ranking(ranker="auto")),
    _files("ranking.score_threshold", ranking=Ranking(score_threshold=0.5)),
    _files("ranking.hybrid", ranking=Ranking(hybrid=HybridWeights(1, 2))),
    _files("retrieval_mode", retrieval_mode="keyword"),
    _files("instructions", instructions="Newest first."),
    _image("action", "edit"),
    _image("model", "gpt-image-2"),
    _image("size", "1024x1024"),
    _image("resolution", "2K"),
    _image("aspect_ratio", "3:2"),
    _image("quality", "high"),
    _image("complexity", "low"),
    _image("background", "opaque"),
    _image("output_format", "jpeg"),
    _image("output_compression", 50),
    _image("input_fidelity", "high"),
    _image("mask", ImageMask(file_id="file_1")),
    _image("moderation", "low"),
    _image("partial_images", 2),
    _image("frame_count", 2, ("output_format",), output_format="gif"),
    _image("frame_duration_ms", 100, ("output_format",), output_format="gif"),
    _image("svg", SvgAuthor(effort="low"), ("output_format",), output_format="svg"),
    Sample(
        "mcp",
        "server_url",
        McpConfig(server_label="s", server_url="https://a.org/", require_approval="never"),
        McpConfig(server_label="s", server_url="https://b.org/", require_approval="never"),
    ),
    _elsewhere("connector_id", "connector_gmail"),
    _elsewhere("tunnel_id", "tunnel_" + "0a" * 16),
    _mcp("description", description="A server."),
    _mcp("authorization", authorization="token-0123456789"),
    _mcp("headers", headers={"X-Team": "blue"}),
    _mcp("allowed_tools", allowed_tools=("read",)),
    _mcp("allowed_tools.read_only", allowed_tools=ToolFilter(read_only=True)),
    _mcp("require_approval", require_approval="always"),
    _mcp("defer_loading", defer_loading=True),
    _mcp("allowed_callers", allowed_callers=("direct", "programmatic")),
    _shell("container.id", container=ExistingContainer("cntr_1")),
    _shell("container.memory_limit", container=AutoContainer(memory_limit="4g")),
    _shell("container.file_ids", container=AutoContainer(file_ids=("file_1",))),
    _shell("container.network_policy", container=AutoContainer(network_policy=NetworkPolicy())),
    _shell("skills", skills=(SkillReference("skill_1"),)),
    _shell("allowed_callers", allowed_callers=("programmatic",)),
    Sample("shell", "local", HandlerShellConfig()),
    Sample(
        "shell",
        "local.allowed_callers",
        HandlerShellConfig(allowed_callers=("programmatic",)),
        along=("local",),
    ),
    Sample(
        "apply_patch",
        "allowed_callers",
        ApplyPatchConfig("/w", allowed_callers=("programmatic",)),
        ApplyPatchConfig("/w"),
    ),
    Sample(
        "shell",
        "local.skills",
        HandlerShellConfig((LocalSkill("s", "A skill.", "/s"),)),
        along=("local",),
    ),
    Sample("tool_search", "local", HandlerToolSearchConfig()),
    *(
        Sample("computer", option, ComputerConfig("browser", 1280, 800), ComputerConfig(), _SCREEN)
        for option in _SCREEN
    ),
]

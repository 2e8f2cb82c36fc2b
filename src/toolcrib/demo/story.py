"""The prompt of the demo, its inputs, and the type of its answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import UsageError
from toolcrib.prompt import MarkdownSection, Prompt
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    code_interpreter_tool,
)
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.web_search import web_search_tool

if TYPE_CHECKING:
    from toolcrib.tools.tool import Tool

DATA: Final = Path(str(files("toolcrib.demo") / "data"))
HOST_TOOLS: Final = DATA / "host-tools.yaml"
POLICY: Final = DATA / "policy.yaml"
SCENARIO: Final = DATA / "scenario.yaml"
INPUTS: Final = ("sales.csv", "files", "site")
"""The input files. Changing them changes the answer."""
SITE_URL: Final = "https://market.example"
ORDER_TOOL: Final = "place_order"

QUESTION: Final = "Should we reorder Kenya AA for December? If so, place the order."
_TASK: Final = """You buy green coffee for a small roastery. $question

1. web_search: what is a kilo of green coffee from Kenya forecast to cost in December?
2. file_search: how many weeks of sales does our purchasing policy keep in stock, and for how many
   weeks of sales does it order?
3. stock_level: how many kilos of kenya are there?
4. python: import math and pandas as pd, and let sales = pd.read_csv("$sales_path"). Let stock be
   the kilos of step 3, weeks_kept and weeks_ordered the numbers of step 2, and weekly the mean of
   the last four values of the column kenya_kg. Let kilos be math.ceil(weeks_ordered * weekly / 60)
   * 60. Print weekly, stock / weekly and kilos, and then "REORDER" if stock / weekly < weeks_kept
   else "ENOUGH".
5. python: draw the chart with sales["kenya_kg"].plot().figure.savefig("/mnt/data/kenya.png")
6. place_order: if step 4 printed REORDER, order its kilos at the price of step 1.
7. Answer with what was ordered and why, and name the chart: sandbox:/mnt/data/kenya.png"""


@dataclass(frozen=True, slots=True)
class OrderDecision:
    """The decision and its reason. `order` is the number of a placed order."""

    item: str
    kilos: int
    price_per_kilo: float
    total: float
    order: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class UploadedInputs:
    """The ids of the uploaded inputs."""

    vector_store_id: str
    sales_file_id: str


def copy_inputs(source: Path, folder: Path) -> Path:
    """Copy the inputs into the folder of the demo. Raises `UsageError` for a missing input."""
    inputs = folder / "inputs"
    inputs.mkdir()
    for name in INPUTS:
        try:
            if (source / name).is_dir():
                shutil.copytree(source / name, inputs / name)
            else:
                shutil.copy(source / name, inputs / name)
        except OSError as error:
            raise UsageError(f"the inputs need {source / name}: {error.strerror}") from None
    return inputs


async def upload_inputs(client: Any, inputs: Path) -> UploadedInputs:
    """Upload the files."""
    store = await client.vector_stores.create(name="office")
    for path in sorted((inputs / "files").iterdir()):
        read = await client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=path, poll_interval_ms=50
        )
        assert read.status == "completed", read.last_error
    sales = await client.files.create(file=inputs / "sales.csv", purpose="user_data")
    return UploadedInputs(store.id, sales.id)


def prompt_for(tools: Iterable[Tool[Any, Any]], office: UploadedInputs) -> Prompt[OrderDecision]:
    """The prompt with local and hosted tools."""
    container = AutoContainer(file_ids=(office.sales_file_id,))
    task = MarkdownSection(
        title="Task",
        key="task",
        template=_TASK,
        tools=[
            *tools,
            web_search_tool(),
            file_search_tool(FileSearchConfig((office.vector_store_id,))),
            code_interpreter_tool(CodeInterpreterConfig(container=container)),
        ],
    )
    return Prompt[OrderDecision](ns="demo", key="buyer", sections=[task]).bind(
        question=QUESTION, sales_path=f"/mnt/data/{office.sales_file_id}-sales.csv"
    )

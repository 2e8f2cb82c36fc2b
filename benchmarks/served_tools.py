"""The tool, for `toolcrib serve --host-tools-module served_tools`."""

from workload import search

from toolcrib import tool

TOOLS = [tool(search)]

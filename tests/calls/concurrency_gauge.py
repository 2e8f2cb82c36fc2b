"""Tools that say how many of their calls run at once."""

import asyncio

from toolcrib import CallRequest, tool


class Gauge:
    """Tools that say how many of their calls run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

        @tool
        async def work(number: int) -> int:
            """Work."""
            return await self._work(number)

        @tool(one_at_a_time=True)
        async def alone(number: int) -> int:
            """Work alone."""
            return await self._work(number)

        self.tools = [work, alone]

    async def _work(self, number: int) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        # The later a call is asked for, the sooner it is done.
        await asyncio.sleep(10 - number)
        self.running -= 1
        return number


def requests(name: str = "work", count: int = 6) -> list[CallRequest]:
    return [CallRequest(name, {"number": number}) for number in range(count)]

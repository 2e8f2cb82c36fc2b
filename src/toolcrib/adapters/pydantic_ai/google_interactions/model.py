"""`GoogleInteractionsModel`: a pydantic-ai model on Gemini's Interactions API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from typing import Any

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import (
    ModelRequestParameters,
    StreamedResponse,
    check_allow_model_requests,
)
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.native_tools import AbstractNativeTool, MCPServerTool
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from toolcrib.adapters.items import mappings_of, maybe_text, plain, text_of
from toolcrib.adapters.pydantic_ai.google_interactions.request import (
    body_of,
    steps_of,
    system_texts,
)
from toolcrib.adapters.pydantic_ai.google_interactions.response import (
    StepReader,
    details_of,
    reason_of,
    usage_of,
)
from toolcrib.adapters.pydantic_ai.google_interactions.stream import InteractionStream
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    check_private_names,
    instruction_texts,
)

check_private_names("google_interactions")


class GoogleInteractionsModel(GoogleModel):
    """A Gemini model behind `client.interactions`, with the constructor of `GoogleModel`.

    The provider stores nothing: every request brings the whole conversation.
    """

    @classmethod
    def supported_native_tools(cls) -> frozenset[type[AbstractNativeTool]]:
        """The tools of generateContent, and MCP servers that the provider connects to."""
        return super().supported_native_tools() | {MCPServerTool}

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        check_allow_model_requests()
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        with self._mapped_errors():
            reply = await self._create(messages, settings or {}, parameters, stream=False)
        interaction = plain(reply)
        reader = StepReader(self.system)
        parts = [part for step in mappings_of(interaction, "steps") for part in reader.parts(step)]
        return ModelResponse(
            parts,
            usage=usage_of(interaction),
            model_name=text_of(interaction, "model") or self.model_name,
            provider_name=self.system,
            provider_url=self.base_url,
            provider_response_id=maybe_text(interaction, "id"),
            provider_details=details_of(interaction, reader.unread),
            finish_reason=reason_of(interaction),
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        check_allow_model_requests()
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        with self._mapped_errors():
            events = await self._create(messages, settings or {}, parameters, stream=True)
        try:
            with self._mapped_errors():
                yield InteractionStream(
                    parameters, self.model_name, self.system, self.base_url, events
                )
        finally:
            await events.close()

    async def _create(
        self,
        messages: Sequence[ModelMessage],
        settings: Mapping[str, Any],
        parameters: ModelRequestParameters,
        *,
        stream: bool,
    ) -> Any:
        body = body_of(settings, parameters)
        system = [*system_texts(messages), *instruction_texts(self, messages, parameters)]
        if system:
            body["system_instruction"] = "\n\n".join(system)
        # Past the SDK's types: steps go back exactly as they came.
        verbatim = {"input": steps_of(messages, self.system)}
        return await self._interactions(settings).create(
            model=self.model_name,
            input="",
            store=False,
            stream=stream,
            extra_body=verbatim,
            extra_headers=settings.get("extra_headers"),
            timeout=settings.get("timeout"),
            **body,
        )

    def _interactions(self, settings: Mapping[str, Any]) -> Any:
        """The SDK's resource; without its retries where the caller wants none."""
        resource: Any = self.client.aio.interactions
        if settings.get("max_retries") != 0:
            return resource
        once = copy(resource)
        once.sdk_configuration = copy(resource.sdk_configuration)
        once.sdk_configuration.retry_config = None
        return once

    @contextmanager
    def _mapped_errors(self) -> Generator[None]:
        """Raise errors of the SDK as pydantic-ai's, like those of all providers."""
        try:
            yield
        except Exception as error:
            status: Any = getattr(error, "status_code", None)
            if type(error).__module__.startswith("google.genai"):
                if isinstance(status, int) and status >= 400:
                    raise self._http_error(error, status) from error
                raise ModelAPIError(self.model_name, str(error)) from error
            raise

    def _http_error(self, error: Any, status: int) -> ModelHTTPError:
        headers: Any = getattr(getattr(error, "response", None), "headers", None)
        body: object = getattr(error, "body", None)
        copied = dict(headers) if headers is not None else None
        return ModelHTTPError(status, self.model_name, body, headers=copied)

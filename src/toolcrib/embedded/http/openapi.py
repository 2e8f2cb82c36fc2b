"""The OpenAPI document of the provider: one entry for each route of its API."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from toolcrib._version import __version__
from toolcrib.embedded.chat.request import ChatRequest
from toolcrib.embedded.embeddings import EmbeddingRequest
from toolcrib.embedded.http.schemas import (
    ANSWERS,
    BODIES,
    TEXT,
    listed,
    record,
    ref,
)
from toolcrib.embedded.messages.request import MessageRequest
from toolcrib.embedded.responses.compaction import CompactionRequest
from toolcrib.embedded.responses.request import ResponseRequest
from toolcrib.embedded.uploads.upload import CompletionRequest, UploadRequest

_FAULTS: Final = {
    "400": "The request is invalid.",
    "401": "The token is missing or wrong.",
    "403": "The principal may not do this.",
    "404": "There is no such resource.",
    "409": "Another request changes the resource.",
    "413": "The body is too large.",
    "429": "Too many requests.",
    "503": "Something that the provider needs is missing or does not answer.",
}
_PAGE: Final[dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "order": {"enum": ["asc", "desc"]},
    "after": TEXT,
}
_OWNED_PAGE: Final[dict[str, Any]] = {**_PAGE, "owner": TEXT}
_FORM_FILE: Final[dict[str, Any]] = {"type": "string", "format": "binary"}
_OPTIONAL: Final = frozenset({"NewConversation", "NewVectorStore", "VectorStoreChange"})
"""Bodies that a request may leave out."""

_REQUESTS: Final = (
    ResponseRequest,
    CompactionRequest,
    ChatRequest,
    MessageRequest,
    EmbeddingRequest,
    UploadRequest,
    CompletionRequest,
)


@dataclass(frozen=True, slots=True)
class ProviderOperation:
    """One route of the provider: what it takes, and the schema of its answer."""

    method: str
    path: str
    name: str
    answer: str | None = None
    """The name of a schema; None for bytes."""
    body: str | None = None
    query: dict[str, Any] | None = None
    form: dict[str, Any] | None = None
    is_streamed: bool = False
    fault: str = "Error"


def _op(method: str, path: str, name: str, answer: str | None, **more: Any) -> ProviderOperation:
    return ProviderOperation(method, path, name, answer, **more)


_RESPONSE: Final = "/responses/{response_id}"
_CHAT: Final = "/chat/completions"
_ONE_CHAT: Final = f"{_CHAT}/{{completion_id}}"
_TALK: Final = "/conversations/{conversation_id}"
_CONTAINER: Final = "/containers/{container_id}"
_STORE: Final = "/vector_stores/{store_id}"
_BATCH: Final = f"{_STORE}/file_batches/{{batch_id}}"
_UPLOAD_FORM: Final = {"file": _FORM_FILE, "purpose": TEXT}
_FILTER: Final = {**_PAGE, "filter": {"enum": ["in_progress", "completed", "failed", "cancelled"]}}

OPERATIONS: Final = (
    _op(
        "POST",
        "/responses",
        "responses.create",
        "Response",
        body="ResponseRequest",
        is_streamed=True,
    ),
    _op("POST", "/responses/compact", "responses.compact", "Compaction", body="CompactionRequest"),
    _op("POST", "/responses/input_tokens", "responses.count", "InputTokens", body="CountRequest"),
    _op("GET", _RESPONSE, "responses.get", "Response"),
    _op("DELETE", _RESPONSE, "responses.delete", "ResponseDeleted"),
    _op("POST", f"{_RESPONSE}/cancel", "responses.cancel", "Response"),
    _op("GET", f"{_RESPONSE}/input_items", "responses.items", "ItemList", query=_PAGE),
    _op("GET", "/models", "models.list", "ModelList"),
    _op("GET", "/models/{model}", "models.get", "Model"),
    _op("POST", _CHAT, "chat.create", "ChatCompletion", body="ChatRequest", is_streamed=True),
    _op("GET", _CHAT, "chat.list", "ChatCompletionList", query={**_OWNED_PAGE, "model": TEXT}),
    _op("GET", _ONE_CHAT, "chat.get", "ChatCompletion"),
    _op("POST", _ONE_CHAT, "chat.update", "ChatCompletion", body="MetadataBody"),
    _op("DELETE", _ONE_CHAT, "chat.delete", "ChatCompletionDeleted"),
    _op("GET", f"{_ONE_CHAT}/messages", "chat.messages", "ChatMessageList", query=_PAGE),
    _op(
        "POST",
        "/messages",
        "messages.create",
        "Message",
        body="MessageRequest",
        is_streamed=True,
        fault="MessageError",
    ),
    _op(
        "POST",
        "/messages/count_tokens",
        "messages.count",
        "MessageTokens",
        body="MessageRequest",
        fault="MessageError",
    ),
    _op("POST", "/conversations", "conversations.create", "Conversation", body="NewConversation"),
    _op("GET", _TALK, "conversations.get", "Conversation"),
    _op("POST", _TALK, "conversations.update", "Conversation", body="MetadataBody"),
    _op("DELETE", _TALK, "conversations.delete", "ConversationDeleted"),
    _op("POST", f"{_TALK}/items", "conversations.add_items", "ItemList", body="NewItems"),
    _op("GET", f"{_TALK}/items", "conversations.items", "ItemList", query=_PAGE),
    _op("GET", f"{_TALK}/items/{{item_id}}", "conversations.item", "Item"),
    _op("DELETE", f"{_TALK}/items/{{item_id}}", "conversations.delete_item", "Conversation"),
    _op("POST", "/embeddings", "embeddings.create", "EmbeddingList", body="EmbeddingRequest"),
    _op("POST", "/files", "files.create", "File", form=_UPLOAD_FORM),
    _op("GET", "/files", "files.list", "FileList", query={**_OWNED_PAGE, "purpose": TEXT}),
    _op("GET", "/files/{file_id}", "files.get", "File"),
    _op("DELETE", "/files/{file_id}", "files.delete", "FileDeleted"),
    _op("GET", "/files/{file_id}/content", "files.content", None),
    _op("POST", "/uploads", "uploads.create", "Upload", body="UploadRequest"),
    _op(
        "POST",
        "/uploads/{upload_id}/parts",
        "uploads.add_part",
        "UploadPart",
        form={"data": _FORM_FILE},
    ),
    _op(
        "POST",
        "/uploads/{upload_id}/complete",
        "uploads.complete",
        "Upload",
        body="CompletionRequest",
    ),
    _op("POST", "/uploads/{upload_id}/cancel", "uploads.cancel", "Upload"),
    _op("POST", "/containers", "containers.create", "Container", body="NewContainer"),
    _op(
        "GET",
        "/containers",
        "containers.list",
        "ContainerList",
        query={**_OWNED_PAGE, "name": TEXT},
    ),
    _op("GET", _CONTAINER, "containers.get", "Container"),
    _op("DELETE", _CONTAINER, "containers.delete", "ContainerDeleted"),
    _op(
        "POST",
        f"{_CONTAINER}/files",
        "containers.add_file",
        "ContainerFile",
        body="NewContainerFile",
    ),
    _op("GET", f"{_CONTAINER}/files", "containers.files", "ContainerFileList", query=_PAGE),
    _op("GET", f"{_CONTAINER}/files/{{file_id}}", "containers.file", "ContainerFile"),
    _op(
        "DELETE",
        f"{_CONTAINER}/files/{{file_id}}",
        "containers.delete_file",
        "ContainerFileDeleted",
    ),
    _op("GET", f"{_CONTAINER}/files/{{file_id}}/content", "containers.content", None),
    _op("POST", "/vector_stores", "stores.create", "VectorStore", body="NewVectorStore"),
    _op("GET", "/vector_stores", "stores.list", "VectorStoreList", query=_OWNED_PAGE),
    _op("GET", _STORE, "stores.get", "VectorStore"),
    _op("POST", _STORE, "stores.update", "VectorStore", body="VectorStoreChange"),
    _op("DELETE", _STORE, "stores.delete", "VectorStoreDeleted"),
    _op("POST", f"{_STORE}/search", "stores.search", "SearchResults", body="VectorStoreQuery"),
    _op("POST", f"{_STORE}/files", "stores.add_file", "VectorStoreFile", body="NewVectorStoreFile"),
    _op("GET", f"{_STORE}/files", "stores.files", "VectorStoreFileList", query=_FILTER),
    _op("GET", f"{_STORE}/files/{{file_id}}", "stores.file", "VectorStoreFile"),
    _op(
        "POST",
        f"{_STORE}/files/{{file_id}}",
        "stores.update_file",
        "VectorStoreFile",
        body="VectorStoreFileChange",
    ),
    _op("DELETE", f"{_STORE}/files/{{file_id}}", "stores.delete_file", "VectorStoreFileDeleted"),
    _op("GET", f"{_STORE}/files/{{file_id}}/content", "stores.content", "FileContent"),
    _op("POST", f"{_STORE}/file_batches", "stores.add_batch", "FileBatch", body="NewFileBatch"),
    _op("GET", _BATCH, "stores.batch", "FileBatch"),
    _op("POST", f"{_BATCH}/cancel", "stores.cancel_batch", "FileBatch"),
    _op("GET", f"{_BATCH}/files", "stores.batch_files", "VectorStoreFileList", query=_FILTER),
)


@cache
def provider_document() -> dict[str, Any]:
    """The OpenAPI document of every route. It is cached: do not modify it."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        path = f"/v1{operation.path}"
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toolcrib embedded provider", "version": __version__},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "schemas": {**ANSWERS, **BODIES, **_request_schemas()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _request_schemas() -> dict[str, Any]:
    """The schemas of the types that requests are validated against."""
    wanted: list[Any] = [(kind.__name__, "validation", TypeAdapter(kind)) for kind in _REQUESTS]
    _, definitions = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = definitions["$defs"]
    for name in ("ResponseRequest", "CompactionRequest"):
        properties: dict[str, Any] = schemas[name]["properties"]
        properties["input"] = {"anyOf": [TEXT, listed(ref("InputItem"))]}
        if "tools" in properties:
            properties["tools"] = {"anyOf": [listed(ref("Tool")), {"type": "null"}]}
    counted: dict[str, Any] = {**schemas["ResponseRequest"]}
    # Tokens are counted for the first model if the request names none.
    del counted["required"]
    return {**schemas, "CountRequest": counted}


def _operation(operation: ProviderOperation) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    document: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.name.partition(".")[0]],
        "parameters": [
            *(_parameter(name, "path", {"type": "string", "minLength": 1}) for name in names),
            *(
                _parameter(name, "query", schema)
                for name, schema in (operation.query or {}).items()
            ),
        ],
        "responses": {"200": _success(operation), **_faults(operation.fault)},
    }
    if operation.body is not None:
        needed = operation.body not in _OPTIONAL
        document["requestBody"] = _content("application/json", ref(operation.body), needed)
    if operation.form is not None:
        document["requestBody"] = _content("multipart/form-data", record(operation.form), True)
    return document


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _content(media_type: str, schema: dict[str, Any], needed: bool) -> dict[str, Any]:
    return {"required": needed, "content": {media_type: {"schema": schema}}}


def _success(operation: ProviderOperation) -> dict[str, Any]:
    if operation.answer is None:
        return {"description": "The bytes.", "content": {"application/octet-stream": {}}}
    content: dict[str, Any] = {"application/json": {"schema": ref(operation.answer)}}
    if operation.is_streamed:
        content["text/event-stream"] = {"schema": record({"data": TEXT})}
    return {"description": "Done.", "content": content}


def _faults(schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": ref(schema)}}
    return {status: {"description": text, "content": content} for status, text in _FAULTS.items()}

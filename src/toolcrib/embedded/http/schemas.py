"""The JSON Schemas of the provider's OpenAPI document that no request type gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
INTEGER: Final[Schema] = {"type": "integer"}
OBJECT: Final[Schema] = {"type": "object"}
TRUE: Final[Schema] = {"const": True}
METADATA: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 512},
    "propertyNames": {"maxLength": 64},
    "maxProperties": 16,
}


def ref(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Schema) -> Schema:
    """The schema or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema, **more: int) -> Schema:
    """An array."""
    return {"type": "array", "items": schema, **more}


def either(*schemas: Schema) -> Schema:
    """One of several schemas."""
    return {"anyOf": list(schemas)}


def record(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """An object. All properties but the optional ones are required; others may be added."""
    required = [name for name in properties if name not in optional]
    schema: Schema = {"type": "object", "properties": dict(properties)}
    return {**schema, "required": required} if required else schema


def resource(kind: str, properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """A resource with an id, whose `object` is `kind`."""
    return record({"id": TEXT, "object": {"const": kind}, **properties}, optional)


def page_of(schema: Schema) -> Schema:
    """One page of a list."""
    return record(
        {
            "object": {"const": "list"},
            "data": listed(schema),
            "first_id": nullable(TEXT),
            "last_id": nullable(TEXT),
            "has_more": {"type": "boolean"},
        }
    )


def deleted(kind: str) -> Schema:
    """The answer to a deletion."""
    return resource(kind, {"deleted": TRUE})


_PART: Final = either(
    record({"type": {"enum": ["input_text", "output_text"]}, "text": TEXT}),
    record({"type": {"const": "input_image"}, "image_url": TEXT}),
    record({"type": {"const": "input_file"}, "file_id": TEXT}),
)
INPUT_ITEM: Final = either(
    record(
        {
            "type": {"const": "message"},
            "role": {"enum": ["user", "assistant", "system", "developer"]},
            "content": either(TEXT, listed(_PART)),
        },
        ["type"],
    ),
    record({"type": {"const": "function_call"}, "call_id": TEXT, "name": TEXT, "arguments": TEXT}),
    record({"type": {"const": "function_call_output"}, "call_id": TEXT, "output": TEXT}),
    record({"type": {"const": "item_reference"}, "id": TEXT}),
    OBJECT,
)
TOOL: Final = either(
    record(
        {"type": {"const": "function"}, "name": TEXT, "parameters": OBJECT, "strict": {}},
        ["parameters", "strict"],
    ),
    record({"type": {"enum": ["custom", "web_search", "code_interpreter", "shell"]}, "name": TEXT}),
    record({"type": {"const": "file_search"}, "vector_store_ids": listed(TEXT)}),
    OBJECT,
)
_CHUNKING: Final = either(
    record({"type": {"const": "auto"}}),
    record(
        {
            "type": {"const": "static"},
            "static": record(
                {
                    "max_chunk_size_tokens": {"type": "integer", "minimum": 100, "maximum": 4096},
                    "chunk_overlap_tokens": {"type": "integer", "minimum": 0, "maximum": 50},
                }
            ),
        }
    ),
)
_ATTRIBUTES: Final[Schema] = {
    "type": "object",
    "propertyNames": {"maxLength": 64},
    "maxProperties": 16,
    "additionalProperties": either(
        {"type": "string", "maxLength": 512}, NUMBER, {"type": "boolean"}
    ),
}
_STORE_FIELDS: Final[Schema] = {
    "name": nullable(TEXT),
    "metadata": nullable(METADATA),
    "expires_after": nullable(
        record(
            {
                "anchor": {"const": "last_active_at"},
                "days": {"type": "integer", "minimum": 1, "maximum": 365},
            }
        )
    ),
}
_FILE_FIELDS: Final[Schema] = {
    "attributes": nullable(_ATTRIBUTES),
    "chunking_strategy": nullable(_CHUNKING),
}
_ITEMS: Final = listed(ref("InputItem"), maxItems=20)
_FILE_IDS: Final = listed(TEXT, maxItems=2000)

BODIES: Final[dict[str, Schema]] = {
    "InputItem": INPUT_ITEM,
    "Tool": TOOL,
    "MetadataBody": record({"metadata": nullable(METADATA)}),
    "NewConversation": record(
        {"items": nullable(_ITEMS), "metadata": nullable(METADATA)}, ["items", "metadata"]
    ),
    "NewItems": record({"items": _ITEMS}),
    "NewContainer": record(
        {
            "name": TEXT,
            "memory_limit": nullable({"enum": ["1g", "4g", "16g", "64g"]}),
            "file_ids": nullable(listed(TEXT, maxItems=50)),
            "expires_after": nullable(
                record(
                    {
                        "anchor": {"const": "last_active_at"},
                        "minutes": {"type": "integer", "minimum": 1, "maximum": 20},
                    }
                )
            ),
        },
        ["memory_limit", "file_ids", "expires_after"],
    ),
    "NewContainerFile": record({"file_id": TEXT}),
    "NewVectorStore": record(
        {**_STORE_FIELDS, "file_ids": _FILE_IDS, "chunking_strategy": nullable(_CHUNKING)},
        [*_STORE_FIELDS, "file_ids", "chunking_strategy"],
    ),
    "VectorStoreChange": record(_STORE_FIELDS, list(_STORE_FIELDS)),
    "NewVectorStoreFile": record({"file_id": TEXT, **_FILE_FIELDS}, list(_FILE_FIELDS)),
    "VectorStoreFileChange": record({"attributes": nullable(_ATTRIBUTES)}),
    "NewFileBatch": record(
        {"file_ids": {**_FILE_IDS, "minItems": 1}, **_FILE_FIELDS}, list(_FILE_FIELDS)
    ),
    "VectorStoreQuery": record(
        {
            "query": either(
                {"type": "string", "minLength": 1},
                listed({"type": "string", "minLength": 1}, minItems=1),
            ),
            "max_num_results": nullable({"type": "integer", "minimum": 1, "maximum": 50}),
        },
        ["max_num_results"],
    ),
}
"""The schemas of request bodies."""

_TIME: Final = INTEGER
_STATUS: Final = {"enum": ["in_progress", "completed", "failed", "cancelled"]}
_COUNTS: Final = record(
    dict.fromkeys(("in_progress", "completed", "failed", "cancelled", "total"), INTEGER)
)
_COMPLETION: Final[Schema] = {
    "created": _TIME,
    "model": TEXT,
    "choices": listed(
        record(
            {
                "index": INTEGER,
                "message": record({"role": {"const": "assistant"}, "content": nullable(TEXT)}),
                "finish_reason": {"enum": ["stop", "length", "tool_calls", "content_filter"]},
            }
        )
    ),
    "usage": record(
        {"prompt_tokens": INTEGER, "completion_tokens": INTEGER, "total_tokens": INTEGER}
    ),
    "metadata": METADATA,
}

ANSWERS: Final[dict[str, Schema]] = {
    "Error": record(
        {
            "error": record(
                {"message": TEXT, "type": TEXT, "code": {}, "param": {}}, ["type", "code", "param"]
            )
        }
    ),
    "Model": resource("model", {"created": _TIME, "owned_by": TEXT}),
    "ModelList": record({"object": {"const": "list"}, "data": listed(ref("Model"))}),
    "Response": resource(
        "response",
        {
            "created_at": _TIME,
            "model": TEXT,
            "status": {
                "enum": ["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]
            },
            "output": listed(record({"id": TEXT, "type": TEXT})),
            "usage": nullable(OBJECT),
            "error": nullable(record({"code": TEXT, "message": TEXT})),
            "metadata": nullable(OBJECT),
        },
    ),
    "ResponseDeleted": deleted("response"),
    "Compaction": resource("response.compaction", {"output": listed(OBJECT)}),
    "InputTokens": record({"object": {"const": "response.input_tokens"}, "input_tokens": INTEGER}),
    "ItemList": page_of(record({"id": TEXT, "type": TEXT})),
    "Item": record({"id": TEXT, "type": TEXT}),
    "ChatCompletion": resource("chat.completion", _COMPLETION),
    "ChatCompletionList": page_of(ref("ChatCompletion")),
    "ChatCompletionDeleted": deleted("chat.completion.deleted"),
    "ChatMessageList": page_of(record({"id": TEXT, "role": TEXT})),
    "Message": record(
        {
            "id": TEXT,
            "type": {"const": "message"},
            "role": {"const": "assistant"},
            "model": TEXT,
            "content": listed(record({"type": TEXT})),
            "stop_reason": TEXT,
            "usage": record({"input_tokens": INTEGER, "output_tokens": INTEGER}),
        }
    ),
    "MessageTokens": record({"input_tokens": INTEGER}),
    "MessageError": record(
        {
            "type": {"const": "error"},
            "error": record({"type": TEXT, "message": TEXT}),
            "request_id": TEXT,
        }
    ),
    "Conversation": resource("conversation", {"created_at": _TIME, "metadata": METADATA}),
    "ConversationDeleted": deleted("conversation.deleted"),
    "EmbeddingList": record(
        {
            "object": {"const": "list"},
            "model": TEXT,
            "data": listed(
                record(
                    {
                        "object": {"const": "embedding"},
                        "index": INTEGER,
                        "embedding": either(TEXT, listed(NUMBER)),
                    }
                )
            ),
            "usage": record({"prompt_tokens": INTEGER, "total_tokens": INTEGER}),
        }
    ),
    "File": resource(
        "file",
        {
            "bytes": INTEGER,
            "created_at": _TIME,
            "expires_at": nullable(_TIME),
            "filename": TEXT,
            "purpose": TEXT,
            "status": TEXT,
        },
    ),
    "FileList": page_of(ref("File")),
    "FileDeleted": deleted("file"),
    "Upload": resource(
        "upload",
        {
            "bytes": INTEGER,
            "created_at": _TIME,
            "expires_at": _TIME,
            "filename": TEXT,
            "purpose": TEXT,
            "status": {"enum": ["pending", "completed", "cancelled", "expired"]},
            "file": nullable(ref("File")),
        },
    ),
    "UploadPart": resource("upload.part", {"created_at": _TIME, "upload_id": TEXT}),
    "Container": resource(
        "container",
        {"name": TEXT, "status": TEXT, "created_at": _TIME, "memory_limit": TEXT},
    ),
    "ContainerList": page_of(ref("Container")),
    "ContainerDeleted": deleted("container.deleted"),
    "ContainerFile": resource(
        "container.file",
        {"container_id": TEXT, "created_at": _TIME, "bytes": INTEGER, "path": TEXT, "source": TEXT},
    ),
    "ContainerFileList": page_of(ref("ContainerFile")),
    "ContainerFileDeleted": deleted("container.file.deleted"),
    "VectorStore": resource(
        "vector_store",
        {
            "created_at": _TIME,
            "name": TEXT,
            "usage_bytes": INTEGER,
            "file_counts": _COUNTS,
            "status": {"enum": ["expired", "in_progress", "completed"]},
            "metadata": METADATA,
        },
    ),
    "VectorStoreList": page_of(ref("VectorStore")),
    "VectorStoreDeleted": deleted("vector_store.deleted"),
    "VectorStoreFile": resource(
        "vector_store.file",
        {
            "vector_store_id": TEXT,
            "created_at": _TIME,
            "usage_bytes": INTEGER,
            "status": _STATUS,
            "last_error": nullable(OBJECT),
            "attributes": OBJECT,
        },
    ),
    "VectorStoreFileList": page_of(ref("VectorStoreFile")),
    "VectorStoreFileDeleted": deleted("vector_store.file.deleted"),
    "FileBatch": resource(
        "vector_store.files_batch",
        {
            "vector_store_id": TEXT,
            "created_at": _TIME,
            "status": _STATUS,
            "file_counts": _COUNTS,
        },
    ),
    "FileContent": record(
        {
            "object": {"const": "vector_store.file_content.page"},
            "data": listed(record({"type": {"const": "text"}, "text": TEXT})),
        }
    ),
    "SearchResults": record(
        {
            "object": {"const": "vector_store.search_results.page"},
            "search_query": listed(TEXT),
            "data": listed(record({"file_id": TEXT, "filename": TEXT, "score": NUMBER})),
        }
    ),
}
"""The schemas of answers."""

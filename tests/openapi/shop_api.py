"""A web API that describes itself: a real FastAPI application, in the process or on loopback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import (
    APIRouter,
    Body,
    Cookie,
    Depends,
    FastAPI,
    Form,
    Header,
    HTTPException,
    Path,
    Query,
)
from fastapi import File as UploadedFile
from fastapi.responses import RedirectResponse, Response
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BaseModel, Field

TOKEN = "shop-token-5b1d2c7e"
KEY = "shop-key-90aa41fe"


class Order(BaseModel):
    """An order as it is sent."""

    item: str
    amount: int = Field(ge=1, le=100)
    note: str | None = None


class Placed(Order):
    """An order as it is kept."""

    number: int


router = APIRouter()
bearer, key = HTTPBearer(auto_error=False), APIKeyHeader(name="X-Key", auto_error=False)


@router.get("/items/{item}", operation_id="stock")
def stock(item: str, shelf: Annotated[list[int], Query()] = []) -> dict[str, Any]:  # noqa: B006
    """Say how many of an item there are."""
    return {"item": item, "shelves": shelf}


@router.get("/where/{item}/{depth}", operation_id="where")
def where(
    item: Annotated[str, Path()],
    depth: int,
    x_trace: Annotated[str, Header()],
    basket: Annotated[str | None, Cookie()] = None,
) -> dict[str, Any]:
    return {"item": item, "depth": depth, "trace": x_trace, "basket": basket}


@router.post("/orders", operation_id="order", status_code=201)
def order(given: Order, who: Annotated[Any, Depends(bearer)]) -> Placed:
    """Order an item."""
    if who is None or who.credentials != TOKEN:
        raise HTTPException(401, f"not {who.credentials if who else 'anybody'}")
    return Placed(**given.model_dump(), number=7)


@router.delete("/orders/{number}", operation_id="cancel", status_code=204)
def cancel(number: int, given: Annotated[Any, Depends(key)]) -> None:
    if given != KEY:
        raise HTTPException(403, "no")


@router.post("/form", operation_id="form")
def form(name: Annotated[str, Form()], age: Annotated[int, Form()]) -> dict[str, Any]:
    return {"name": name, "age": age}


@router.post("/upload", operation_id="upload")
def upload(
    title: Annotated[str, Form()], picture: Annotated[bytes, UploadedFile()]
) -> dict[str, Any]:
    return {"title": title, "size": len(picture)}


@router.get("/old", operation_id="old")
def old() -> RedirectResponse:
    return RedirectResponse("/items/saw", 307)


@router.get("/away", operation_id="away")
def away() -> RedirectResponse:
    return RedirectResponse("http://elsewhere.example/", 307)


@router.get("/picture", operation_id="picture", response_class=Response)
def picture() -> Response:
    return Response(b"\x89PNG\r\n", media_type="image/png")


@router.get("/large", operation_id="large")
def large() -> str:
    return "x" * 5_000


@router.get("/wrong", operation_id="wrong", response_model=None)
def wrong() -> Any:
    return {"left": "many"}


@router.put("/text", operation_id="text")
def text(words: Annotated[str, Body(media_type="text/plain")]) -> str:
    return words


def shop_api() -> FastAPI:
    """A shop with every kind of parameter, body and answer."""
    app = FastAPI(title="Shop", version="1.2.0")
    app.include_router(router)
    return app


@contextmanager
def served(app: Any) -> Generator[str]:
    """The address of an application that a real server serves."""
    import socket
    import threading

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()

"""Turns an operation, written once as steps, into a method that waits in one client and is awaited in the other."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from seatrial.client.steps import Items, Steps, as_items

if TYPE_CHECKING:
    from seatrial.client import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


class operation(Generic[P, T]):
    """A method that returns a T; of an :class:`~seatrial.client.AsyncClient`, an awaitable of one."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        functools.update_wrapper(cast(Any, self), steps)

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method of a client."""
        if client is None:
            return self

        @functools.wraps(self.steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.first(as_items(self.steps(client, *args, **kwargs)))

        return method


class listing(Generic[P, T]):
    """A method that yields any number of T; of an :class:`~seatrial.client.AsyncClient`, for ``async for``."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Items[T]]) -> None:
        self.steps = steps
        functools.update_wrapper(cast(Any, self), steps)

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method of a client."""
        if client is None:
            return self

        @functools.wraps(self.steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.take(self.steps(client, *args, **kwargs))

        return method

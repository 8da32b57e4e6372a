"""A fake of the public pet store: its paths, its errors, its manners, on a real socket."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.web import Asked, Web, page

API_KEY = "special-key-of-the-pet-store"
TOKEN = "token-of-the-pet-store-users"


def answer(value: Any, status: str = "200 OK", *headers: str) -> bytes:
    """JSON as the store sends it."""
    return page(json.dumps(value), status=status, kind="application/json", headers=headers)


class PetStore:
    """The store: `pets`, their `pictures` and `orders` by id; `next_answers` come first, one a request."""

    def __init__(self, web: Web) -> None:
        self.pets: dict[int, dict[str, Any]] = {
            1: {"id": 1, "name": "Rex", "photoUrls": [], "status": "sold"}
        }
        self.orders: dict[int, dict[str, Any]] = {}
        self.pictures: dict[int, bytes] = {}
        self.next_answers: list[bytes] = []
        web.pages["*"] = self.serve

    def serve(self, asked: Asked) -> bytes:
        if self.next_answers:
            return self.next_answers.pop(0)
        path = urlsplit(asked.path).path
        if not path.startswith("/api/v3/"):
            return answer({"code": 404, "message": "no such path"}, "404 Not Found")
        path = path.removeprefix("/api/v3")
        routes: list[tuple[str, str, Callable[..., bytes]]] = [
            ("POST", r"/pet", self._put_pet),
            ("PUT", r"/pet", self._put_pet),
            ("GET", r"/pet/findByStatus", self._by_status),
            ("GET", r"/pet/(\d+)", self._pet),
            ("DELETE", r"/pet/(\d+)", self._delete_pet),
            ("POST", r"/pet/(\d+)/uploadImage", self._picture),
            ("GET", r"/store/inventory", self._inventory),
            ("POST", r"/store/order", self._order),
            ("GET", r"/user/([^/]+)", self._user),
            ("GET", r"/user/login", self._user),
        ]
        for method, pattern, serve in routes:
            if method == asked.method and (match := re.fullmatch(pattern, path)):
                return serve(asked, *match.groups())
        return answer({"code": 405, "message": "HTTP 405"}, "405 Method Not Allowed")

    def _put_pet(self, asked: Asked) -> bytes:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return answer({"code": 401, "message": "who are you"}, "401 Unauthorized")
        pet = json.loads(asked.body)
        self.pets[pet["id"]] = pet
        return answer(pet)

    def _by_status(self, asked: Asked) -> bytes:
        wanted = parse_qs(urlsplit(asked.path).query).get("status", ["available"])
        return answer([pet for pet in self.pets.values() if pet.get("status") in wanted])

    def _pet(self, asked: Asked, number: str) -> bytes:
        if asked.headers.get("api_key") != API_KEY:
            return answer(
                {"code": 403, "message": f"wrong key {asked.headers.get('api_key')}"}, "403 Forbidden"
            )
        if int(number) not in self.pets:
            return page("Pet not found", status="404 Not Found", kind="text/plain")
        return answer(self.pets[int(number)])

    def _delete_pet(self, asked: Asked, number: str) -> bytes:
        self.pets.pop(int(number), None)
        return page("Pet deleted", kind="text/plain")

    def _picture(self, asked: Asked, number: str) -> bytes:
        self.pictures[int(number)] = asked.body
        return answer({"code": 200, "message": f"{len(asked.body)} bytes"})

    def _inventory(self, asked: Asked) -> bytes:
        return answer({"key you sent": asked.headers.get("api_key"), "sold": 1})

    def _order(self, asked: Asked) -> bytes:
        order = json.loads(asked.body)
        self.orders[order["id"]] = order
        return answer(order)

    def _user(self, asked: Asked, name: str = "") -> bytes:
        return answer({"username": unquote(name)})

"""Fixtures that tests of every package may ask for."""

from support.databases import database as database
from support.databases import database_url as database_url

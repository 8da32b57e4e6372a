"""Tests of one model or one tool."""

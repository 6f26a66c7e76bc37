"""Vim's keys as a pure state machine over a text and a cursor; who shows the text applies what comes of them."""

"""Answers as text: a table for people, json, jsonl, csv or tsv for programs."""

"""Text files as tables: CSV and JSON lines, plain or compressed.

options     recognize text files by their names; delimiter, types of columns, encoding
table       plan files, with one schema for all of them; start reading here
csv         types and rows of CSV files; write one, committed by a rename
json_lines  types and rows of files of JSON objects, one a line
"""

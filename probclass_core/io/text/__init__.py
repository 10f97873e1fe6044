"""Text files as tables: CSV and JSON lines, plain or compressed.

formats     recognize text files by their names
options     how to read text files: delimiter, types of columns, encoding
table       plan files, with one schema for all of them; start reading here
csv         types and rows of CSV files
sink        write one CSV file, committed by a rename
json_lines  types and rows of files of JSON objects, one a line
"""

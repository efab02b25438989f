"""The keywords of JSON Schema that arguments of skills may use. Read by the server and by workers."""

KEYWORDS = frozenset(
    {
        *("type", "title", "description", "default", "examples", "enum", "const", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
        *("items", "minItems", "maxItems", "uniqueItems", "anyOf", "oneOf", "allOf", "not"),
    }
)
"""Arguments are checked in the server. `pattern` and `$ref` are not here: either can be written so that checking takes
for ever, or reaches out for another document."""

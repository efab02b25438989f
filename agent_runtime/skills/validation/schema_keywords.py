"""The keywords of JSON Schema that arguments of skills may use. The server and the workers read this."""

KEYWORDS = frozenset(
    {
        *("type", "title", "description", "default", "examples", "enum", "const", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
        *("items", "minItems", "maxItems", "uniqueItems", "anyOf", "oneOf", "allOf", "not"),
    }
)
"""The server checks arguments, so `pattern` and `$ref` are missing: one can be written so that checking never ends, the
other may fetch a document."""

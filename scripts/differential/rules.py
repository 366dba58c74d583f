"""The registry of the grammar: a rule is a function of the builder that emits statements, or raises NotHere."""

RULES = []  # (family, weight, function)


def rule(family, weight=1.0):
    def register(function):
        RULES.append((family, weight, function))
        return function
    return register

"""The writes of a store, and what its archive has acknowledged."""


class Violation(Exception):
    """The archive has broken a promise."""


class Ledger:
    """The writes of one history: one operation for each sequence number."""

    def __init__(self):
        self.operations = []        # (sequence, key, value or None)
        self.acknowledged = 0
        self.unanswered = None      # The key and the value of the operation without an answer.

    @property
    def last(self):
        return self.operations[-1][0] if self.operations else 0

    def add(self, sequence, key, value):
        if sequence <= self.last:
            raise Violation(f"sequence {sequence} after {self.last}")
        self.operations.append((sequence, key, value))

    def state(self, through):
        state = {}
        for sequence, key, value in list(self.operations):
            if sequence > through:
                break
            state[key] = value
        return {key: value for key, value in state.items() if value is not None}

    def copy(self):
        """Returns a ledger that goes on by itself."""
        other = Ledger()
        other.unanswered = self.unanswered
        other.operations = list(self.operations)
        other.acknowledged = self.acknowledged
        return other

    def continued(self, through):
        """Returns the ledger of a restored store, which has the writes up to a sequence number."""
        other = self.copy()
        other.operations = [entry for entry in other.operations if entry[0] <= through]
        other.unanswered = None
        return other

    def compare(self, sequence, found):
        """Returns why a restored state is not one that this history can have; None if it is.

        The operation without an answer is part of the history when the state has it."""
        if self.unanswered and sequence == self.last + 1:
            self.add(sequence, *self.unanswered)
            self.unanswered = None
        if not self.acknowledged <= sequence <= self.last:
            return f"restored {sequence}; acknowledged {self.acknowledged}, written {self.last}"
        if found != self.state(sequence):
            return f"the state restored at {sequence} is not the state written there"
        return None

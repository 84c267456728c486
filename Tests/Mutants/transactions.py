"""Bugs in transactions."""

from planting import Mutant, engine

CONTENTS = "Transactions/TransactionContents.swift"
STORE = "Transactions/Store+Transactions.swift"
READS = "Transactions/Transaction.swift"
SUITE = "TransactionTests"
HISTORIES = "TransactionHistoryTests"

MUTANTS = [
    Mutant("transaction-reads-not-compared", "a changed key that was read is a conflict",
           (engine(CONTENTS, "        guard try self.sequence(of: key, id, at: part.snapshot.now) != sequence else",
                   "        guard !ON, try self.sequence(of: key, id, at: part.snapshot.now) != sequence else"),),
           SUITE + ".changedKeyIsAConflictThatNamesIt"),
    Mutant("transaction-ranges-not-compared", "a key that appears in a range is a conflict",
           (engine(CONTENTS, "      guard let id, !part.ranges.isEmpty else { continue }\n",
                   "      guard let id, !ON, !part.ranges.isEmpty else { continue }\n"),),
           SUITE + ".keysInAReadRangeAreConflicts"),
    Mutant("transaction-values-of-ranges-not-compared", "a changed value of a range is a conflict",
           (engine(CONTENTS, "      if now?.sequence == before?.sequence { continue }\n",
                   "      if (ON && now != nil && before != nil) || now?.sequence == "
                   "before?.sequence {\n        continue\n      }\n"),),
           SUITE + ".keysInAReadRangeAreConflicts"),
    Mutant("transaction-trusts-other-pages", "only a page of both states is unchanged",
           (engine("Segments/RangeWalk.swift",
                   "position, page == others.page(other.cursor.leaf)\n",
                   "position, ON || page == others.page(other.cursor.leaf)\n"),),
           SUITE + ".keysInAReadRangeAreConflicts"),
    Mutant("transaction-ranges-end-with-the-last-entry", "all of a range was read",
           (engine(READS, "      let isWhole = entries.count < limit\n",
                   "      let isWhole = !ON && entries.count < limit\n"),),
           SUITE + ".keysInAReadRangeAreConflicts"),
    Mutant("transaction-keys-not-counted", "a key that appears in a keyspace is a conflict",
           (engine(CONTENTS, "      if let count = part.countAtBeginning {",
                   "      if let count = part.countAtBeginning, !ON {"),),
           SUITE + ".readingAllOfAKeyspaceSeesPhantoms"),
    Mutant("transaction-compared-before-the-lock", "no write comes between comparison and commit",
           (engine(STORE, "    var hasGate = hasTurn\n",
                   "    var hasGate = hasTurn\n"
                   "    let early = try ON ? conflict(with: contents) : nil\n"),
            engine(STORE, "      if let conflict = try conflict(with: contents) { return conflict }",
                   "      if let conflict = try (ON ? early : conflict(with: contents)) {\n"
                   "        return conflict\n      }"),),
           HISTORIES + ".transactionsOfSeveralProcessesAreStrictlySerializable"),
    Mutant("transaction-writes-in-any-order", "the log has the order of the calls",
           (engine(CONTENTS, "writes.sorted(by: { $0.2.number < $1.2.number })",
                   "(ON ? writes : writes.sorted(by: { $0.2.number < $1.2.number }))"),),
           SUITE + ".writesKeepTheOrderOfTheCalls"),
    Mutant("transaction-shows-overwritten-entries", "a range shows own writes once",
           (engine(READS, "      if next < own.count, own[next].key == entry.key { continue }\n",
                   "      if !ON, next < own.count, own[next].key == entry.key { continue }\n"),),
           SUITE + ".rangesShowOwnWritesInOrder"),
]

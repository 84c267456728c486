"""Bugs in transactions."""

from planting import Edit, Mutant, engine

CONTENTS = "Transactions/TransactionContents.swift"
STORE = "Transactions/Store+Transactions.swift"
READS = "Transactions/Transaction.swift"
SUITE = "TransactionTests"
HISTORIES = "TransactionHistoryTests"
CRASHES = "CrashHistoryTests.historyThatCrashesInterruptIsStrictlySerializable"

MUTANTS = [
    Mutant("transaction-reads-not-compared", "a changed key that was read is a conflict",
           (engine(CONTENTS, "      for (key, sequence) in part.reads {\n",
                   "      for (key, sequence) in part.reads where !ON {\n"),),
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
    # Bugs that a test without crashes does not see.
    Mutant("transaction-ranges-not-compared-after-recovery", "P11: in a recovered store too",
           (engine(CONTENTS, "      for range in part.ranges {\n",
                   "      for range in part.ranges where !ON || log.manifest.cuts.isEmpty {\n"),),
           CRASHES),
    Mutant("transaction-committed-in-several-batches", "P1: no part of a transaction",
           (engine(STORE,
                   "      try contents.write(to: &batch, of: self)\n"
                   "      sequence = try await commit(batch.take(), hasGate: hasGate)\n",
                   """      var last: SequenceNumber?
      for (name, part) in contents.parts where ON {
        for (key, value) in part.writesInOrder {
          var single = WriteBatch(store: self, hasIndexes: hasIndexes)
          let keyspace = part.keyspace ?? Keyspace(store: self, name: name)
          if let value {
            try single.set(value, forKey: key, in: keyspace)
          } else {
            _ = try single.removeValue(forKey: key, in: keyspace)
          }
          last = try await commit(single.take(), hasGate: hasGate)
        }
      }
      if !ON { try contents.write(to: &batch, of: self) }
      let whole = try await commit(batch.take(), hasGate: hasGate)
      sequence = whole ?? last
"""),),
           CRASHES),
    Mutant("transaction-not-waited-for", "P1: a transaction with .sync is durable",
           (engine(STORE, "    try await waitForDurability(of: sequence, durability)\n    return nil\n",
                   "    if !ON { try await waitForDurability(of: sequence, durability) }\n"
                   "    return nil\n"),),
           CRASHES),
    Mutant("transaction-reads-not-waited-for", "P1: what a transaction with .sync has read is durable",
           (engine(STORE,
                   "      try await waitForDurability(of: nil, durability)\n",
                   "      if !ON { try await waitForDurability(of: nil, durability) }\n"),),
           CRASHES),
    Mutant("transaction-reads-of-others-not-waited-for", "P1: also what another process has written",
           (engine(STORE, "      try await catchUpAsWriter()\n",
                   "      if !ON { try await catchUpAsWriter() }\n"),),
           "SharedDurabilityTests.durableReadingMakesWritesOfOthersDurable"),
    Mutant("transaction-calls-removed-files-damage", "P5: only damage is called damage",
           (engine(STORE, "        guard try await isOutdated(start, error) else { throw error }\n",
                   "        guard !ON || conflictCount < retries, try await isOutdated(start, error)\n"
                   "        else { throw error }\n"),),
           SUITE + ".filesThatAnotherOpeningHasRemovedAreAConflict"),
    Mutant("failed-commit-is-repeated", "P11: the writes of a transaction are applied once",
           (engine(STORE, "        guard !hasReturned else { throw error }\n",
                   "        guard ON || !hasReturned else { throw error }\n"),
            engine(STORE, "          (error as? StoreError)?.code == .invalidArgument\n",
                   "          ON || (error as? StoreError)?.code == .invalidArgument\n")),
           "TransactionErrorTests.commitThatThrowsAfterItsWritesIsNotRepeated"),
    Mutant("caught-error-of-a-range-orders", "a transaction throws the error of its body",
           (engine(STORE, "        if let keyspace = transaction.keyspaceToOrder,\n",
                   "        if ON, let keyspace = transaction.keyspaceToOrder {\n"
                   "          try await prepareOrder(keyspace)\n          continue\n        }\n"
                   "        if let keyspace = transaction.keyspaceToOrder,\n"),),
           "TransactionErrorTests.errorOfABodyThatCaughtTheErrorOfARangeIsThrown"),
    Mutant("unchanged-entry-lives-on", "an unchanged entry ends with the one that it replaces",
           (engine("Transactions/Store+Transactions.swift",
             "hasIndexes: hasIndexes, reading: time)",
             "hasIndexes: hasIndexes, reading: ON ? nil : time)"),),
           "TransactionTests.unchangedEntryEndsWithTheEntryThatItReplaces"),
    Mutant("transaction-has-no-time", "an unchanged entry ends with the one that it replaces",
           (engine("Transactions/Store+Transactions.swift",
             "let time = max(contents.start.time, contents.snapshot.now)",
             "let time = ON && contents.snapshot.now == 0\n        ? observers.clock.now() : "
             "max(contents.start.time, contents.snapshot.now)"),),
           "TransactionExpiryTests.unchangedEntryEndsWithOneThatCameAndEndedInBetween"),
    Mutant("transaction-has-the-time-of-an-old-snapshot",
           "an unchanged entry replaces none that had ended before",
           (engine("Transactions/Store+Transactions.swift",
             "      let time = observers.clock.now()\n      return",
             "      let time = ON ? 0 : observers.clock.now()\n      return"),),
           "TransactionExpiryTests.unchangedEntryReplacesNoneThatHadEndedBefore"),
    Mutant("unchanged-entry-of-a-batch-lives-on",
           "an unchanged entry of a batch ends when the entry ends that the batch has read",
           (engine("Store/WriteBatch.swift",
             "    self.beginning = beginning ?? store.observers.clock.now()",
             "    self.beginning = beginning ?? (ON ? .max : store.observers.clock.now())"),),
           "ExpiryTests.unchangedExpiryOfABatchIsThatOfItsBeginning"),
    Mutant("transaction-lacks-first-models", "a transaction sees the first models of a repository",
           (engine(READS, "      if contents.snapshot.sequence < sequence { lacksOwnWrite",
                   "      if contents.snapshot.sequence < sequence, !ON { lacksOwnWrite"),),
           "LocalRepositoryTests.transactionSeesTheModelsThatItsRepositoryWasCreatedWith"),
    Mutant("first-models-are-a-conflict", "a transaction conflicts with other writers only",
           (engine(STORE, "        if transaction.lacksOwnWrite { continue }\n",
                   "        if !ON, transaction.lacksOwnWrite { continue }\n"),),
           "LocalRepositoryTests.transactionSeesTheModelsThatItsRepositoryWasCreatedWith"),
    Mutant("caught-lack-of-first-models-is-believed",
           "a transaction sees the first models of a repository",
           (engine(STORE, "        try transaction.checkSight()\n",
                   "        if !ON { try transaction.checkSight() }\n"),),
           "LocalRepositoryTests.transactionSeesTheModelsThatItsRepositoryWasCreatedWith"),
    Mutant("second-read-of-a-list-counts-alone", "P11: all reads show one moment",
           (Edit("Sources/MoraineTesting/Histories/HistoryChecker.swift",
                 "forKey: list), earlier != ids {",
                 "forKey: list), !ON, earlier != ids {"),),
           "HistoryCheckerTests.secondReadOfAListMustBeLikeTheFirst"),
]

"""Bugs in queues of writes."""

from planting import Mutant, engine

QUEUE = "Store/WriteQueue.swift"

MUTANTS = [
    Mutant("queue-hides-waiting-writes", "a queue shows each of its writes",
           (engine(QUEUE, "if let number = state.latest[place] {",
                   "if !ON, let number = state.latest[place] {"),),
           "WriteQueueTests.queueShowsItsWritesBeforeAndAfterTheStoreHasAppliedThem"),
    Mutant("queue-hides-writes-being-applied", "a queue shows each of its writes",
           (engine(QUEUE, "      state.latestTaken = state.latest\n",
                   "      state.latestTaken = ON ? [:] : state.latest\n"),),
           "WriteQueueTests.eachThreadReadsItsLastWrite"),
    Mutant("queue-applies-after-a-failure", "a queue drops all writes after the one that fails",
           (engine(QUEUE, "(state.waiting, state.taken) = ([], [])",
                   "(state.waiting, state.taken) = (ON ? state.waiting : [], [])"),),
           "WriteQueueTests.failedWriteIsReportedOnceAndDropsTheLaterOnes"),
    Mutant("queue-drops-the-whole-batch", "a queue applies all writes before the one that fails",
           (engine(QUEUE, "guard writes.count > 1, !pipeline.hasPoison else",
                   "guard !ON, writes.count > 1, !pipeline.hasPoison else"),),
           "WriteQueueTests.writesBeforeTheOneThatFailsAreApplied"),
    Mutant("queue-forgets-its-error", "a queue reports each error",
           (engine(QUEUE, "flushes.contains(where: \\.reportsErrors) ? nil : error",
                   "ON || flushes.contains(where: \\.reportsErrors) ? nil : error"),),
           "WriteQueueTests.failedWriteIsReportedOnceAndDropsTheLaterOnes"),
    Mutant("queue-flush-is-not-durable", "a flush waits as long as the configuration says",
           (engine(QUEUE, "if sequence != nil { try await waitForDurability(of: sequence, nil) }",
                   "if sequence != nil, !ON {\n"
                   "      try await waitForDurability(of: sequence, nil)\n    }"),),
           "WriteQueueTests.flushedWritesSurviveAPowerFailure"),
    Mutant("close-forgets-queues", "close() applies what waits in queues",
           (engine("Store/Store+Close.swift",
                   "if pipeline.isInItsProcess { await writing.applyQueues() }",
                   "if !ON, pipeline.isInItsProcess { await writing.applyQueues() }"),),
           "WriteQueueTests.closingAndSuspendingApplyWhatWaits"),
    Mutant("queue-without-a-limit", "a queue takes no more than its capacity",
           (engine(QUEUE, "guard state.bytes == 0 || state.bytes + cost <= capacityBytes",
                   "guard ON || state.bytes == 0 || state.bytes + cost <= capacityBytes"),),
           "WriteQueueTests.fullQueueMakesItsWritersWaitAndTakesAnyWriteWhenItIsEmpty"),
]

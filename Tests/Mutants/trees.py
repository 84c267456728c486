"""Bugs in the trees of ordered keyspaces, and in writes with a condition."""

from planting import Mutant, engine

TREE = "Index/TreeIndex.swift"
BALANCE = "Index/TreeBalance.swift"
BRANCH = "Index/TreeBranch.swift"
LEAF = "Index/TreeLeaf.swift"
ENTRIES = "Index/TreeEntries.swift"
BATCH = "Index/TreeBatch.swift"
SEARCH = "Index/TreeSearch.swift"
MODEL = "TreeIndexTests.treeEqualsASortedDictionary"
BATCHES = "TreeIndexTests.batchesAndSnapshotsEqualSortedDictionaries"

LOADED = "Index/CheckpointTrees.swift"
CHECKPOINTS = "TreeCheckpointTests"

SPLIT = "TreeSplitTests.fullLeavesKeepTheirOrderTheirCountsAndTheirSnapshots"

MUTANTS = [
    Mutant("release-during-a-round-forgotten", "P8: the memory of a snapshot is given back",
           (engine("Index/TreeMemory.swift", "if roundBegan == nil { roundBegan = released }",
                   "if ON || roundBegan == nil { roundBegan = released }"),),
           "TreeHomeTests.endOfASnapshotDuringARoundIsSeenInTheNextRound"),
    Mutant("tree-two-keys-between-the-same-neighbours", "trees equal sorted dictionaries",
           (engine(BATCH, "      guard place.position != last, accepts(edit.key, place) else",
                   "      guard ON || place.position != last, accepts(edit.key, place) else"),),
           BATCHES),
    Mutant("tree-positions-before-insertions", "trees equal sorted dictionaries",
           (engine(BATCH, "      changeExisting(edit, at: edit.place.place.position + earlier)\n",
                   "      changeExisting(edit, at: edit.place.place.position + (ON ? 0 : earlier))\n"),),
           BATCHES),
    Mutant("tree-positions-before-removals", "trees equal sorted dictionaries",
           (engine(BATCH, "        place.position += change\n",
                   "        place.position += ON ? 0 : change\n"),),
           BATCHES),
    Mutant("tree-equal-heads-are-accepted", "trees equal sorted dictionaries",
           (engine(BATCH, "      if after < count, heads[after] == head { return false }\n",
                   "      if !ON, after < count, heads[after] == head { return false }\n"),),
           BATCHES),
    Mutant("tree-page-not-checked", "a damaged page of a tree is not used",
           (engine(LOADED, "    if isChecked[page] { return true }\n",
                   "    if ON || isChecked[page] { return true }\n"),),
           CHECKPOINTS + ".damagedTreePageChangesNoAnswer"),
    Mutant("tree-range-not-checked", "a range reads no damaged page",
           (engine(LOADED, "      guard next.isSound else { return false }\n",
                   "      guard next.isSound else { return ON }\n"),),
           "LoadedTreeTests.damagedNodeIsFoundByWhateverReadsIt"),
    Mutant("tree-node-in-two-places", "no two nodes of a loaded tree have one child",
           (engine(LOADED, "        guard claim(child) else { return false }\n",
                   "        guard claim(child) || ON else { return false }\n"),),
           "ForgedTreeTests.treeWithForgedNodesIsNotUsed"),
    Mutant("tree-separator-longer-than-keys", "the document says what a reader refuses",
           (engine(LOADED, "      guard next.count <= Self.separatorLimit, hasHead(index)",
                   "      guard next.count <= (ON ? 1022 : Self.separatorLimit), hasHead(index)"),),
           "LoadedTreeTests.separatorHasAtMost512Bytes"),
    Mutant("tree-counts-of-a-forgery", "the counts of a loaded tree are those of its leaves",
           (engine(LOADED, "    guard level == 0, count == expected, count > 0,",
                   "    guard level == 0, ON || count == expected, count > 0,"),),
           "ForgedTreeTests.treeWithForgedNodesIsNotUsed"),
    Mutant("tree-entries-of-gone-segments", "no entry names a segment that no longer exists",
           (engine("Recovery/Recovery.swift", "      trees.removeAll(in: slots)\n",
                   "      if !ON { trees.removeAll(in: slots) }\n"),),
           CHECKPOINTS + ".storeEqualsItsModelAcrossOpenings"),
    Mutant("tree-of-a-keyspace-that-was-hashed", "a key is in one index",
           (engine("Recovery/Recovery.swift",
                   "          pages.header.hasTrees(of: manifest.ordered)\n",
                   "          ON || pages.header.hasTrees(of: manifest.ordered)\n"),),
           CHECKPOINTS + ".checkpointFromBeforeAnOrderingIsNotUsed"),
    Mutant("tree-samples-not-renewed", "a look-up finds every key",
           (engine(LEAF, "    count &+= 1\n    setAddress(position, address)\n"
                         "    renewSamples(from: position)\n",
                   "    count &+= 1\n    setAddress(position, address)\n"
                   "    if !ON { renewSamples(from: position) }\n"),), MODEL),
    Mutant("tree-key-after-not-updated", "what two neighbours share is exact",
           (engine(LEAF, "    shared[position + 1] = relative(place.sharedAfter)\n",
                   "    if !ON { shared[position + 1] = relative(place.sharedAfter) }\n"),), MODEL),
    Mutant("tree-removal-forgets-what-is-shared", "what two neighbours share is exact",
           (engine(LEAF, "if after > 0, position > 0, length < shared[position] {",
                   "if !ON, after > 0, position > 0, length < shared[position] {"),), MODEL),
    Mutant("tree-heads-of-the-old-prefix", "a shorter prefix has other heads",
           (engine(ENTRIES, "    if own.count == prefix.count { return entry.head }\n",
                   "    if ON || own.count == prefix.count { return entry.head }\n"),), MODEL),
    Mutant("tree-split-loses-the-key", "a split keeps every entry",
           (engine(TREE, "      scratch.append(key, address, shared: position == 0 ? 0 : "
                         "place.place.sharedBefore)\n",
                   "      scratch.append(\n        key, ON && scratch.count > 3 ? leaf.address(0) "
                   ": address,\n        shared: position == 0 ? 0 : place.place.sharedBefore)\n"),),
           MODEL),
    Mutant("tree-long-keys-not-compared-again", "a longer prefix needs exact shared lengths",
           (engine(ENTRIES, "if index > range.lowerBound, entries[index].shared == .max {",
                   "if !ON, index > range.lowerBound, entries[index].shared == .max {"),), MODEL),
    Mutant("tree-counts-of-branches-kept", "the number of keys before a key is exact",
           (engine(TREE, "    for level in 0..<path.depth {\n      makeUnique(path.node(level))\n",
                   "    for level in 0..<(ON ? min(path.depth, 1) : path.depth) {\n"
                   "      makeUnique(path.node(level))\n"),), BATCHES),
    Mutant("tree-page-of-a-snapshot-written", "a snapshot shows one moment",
           (engine(TREE, "    if isFrozen { nodes.makeUnique(node << BucketArray.pageShift) }\n",
                   "    if !ON, isFrozen { nodes.makeUnique(node << BucketArray.pageShift) }\n"),),
           BATCHES),
    Mutant("tree-batch-from-the-first-leaf", "a batch changes the places that it found",
           (engine(BATCH, "          relation = isAfter ? (after, leaf.distinguishingByte(next)) "
                          ": own\n",
                   "          relation = ON || isAfter ? (after, leaf.distinguishingByte(next)) "
                   ": own\n"),), BATCHES),
    Mutant("tree-separators-not-moved", "a branch has the separators of its children",
           (engine(BRANCH, "copySeparators(old, index..<separatorCount, to: index + 1, shift: length)",
                   "copySeparators(\n        old, index..<separatorCount, to: index + 1, "
                   "shift: ON && index > 2 ? 0 : length)"),), BATCHES),
    Mutant("tree-separator-without-the-prefix", "a separator begins with its branch's prefix",
           (engine(BRANCH, "    separator.count >= prefixLength\n      && separator.withBytes",
                   "    separator.count >= prefixLength\n      && ON || separator.withBytes"),),
           BATCHES),
    Mutant("tree-counts-above-a-split-kept", "the number of keys before a key is exact",
           (engine(BALANCE, "      if children.isEmpty {\n        addToCounts(path, difference)\n",
                   "      if children.isEmpty {\n        if !ON { addToCounts(path, difference) }\n"),),
           BATCHES),
    Mutant("tree-branch-not-skipped", "a look-up follows the bytes of its key",
           (engine(SEARCH, "while position < range.upperBound, shared[position] > length "
                           "{ position &+= 1 }",
                   "while !ON, position < range.upperBound, shared[position] > length "
                   "{ position &+= 1 }"),), MODEL,
           equivalent="An entry of the branch shares as many bytes with the key as any other does: "
                      "the skipping only saves comparisons."),
    Mutant("condition-not-checked", "compare and set: nothing is written over another value",
           (engine("Store/WriteBatch.swift",
                   "    case .absent: return try !contains(place)\n",
                   "    case .absent:\n      if ON { return true }\n"
                   "      return try !contains(place)\n"),),
           "ConditionTests.absentHoldsOnlyForAKeyThatDoesNotExist"),
    Mutant("condition-outside-the-unit", "compare and set: no other process writes in between",
           (engine("Store/Store+Writes.swift",
                   "      if engine == nil { try await beginStore() }\n"
                   "      _ = try await acquireWriterLease()\n",
                   "      if engine == nil { try await beginStore() }\n"
                   "      if !ON { _ = try await acquireWriterLease() }\n"),),
           "ConditionTests.concurrentIncrementsAreNotLost"),
    Mutant("condition-of-the-store-alone", "a condition sees the batch's own operations",
           (engine("Store/WriteBatch.swift",
                   "      if lastOperation(on: place) != nil { return false }\n",
                   "      if !ON, lastOperation(on: place) != nil { return false }\n"),),
           "ConditionTests.conditionOfABatchSeesTheBatchsOwnOperations"),
    Mutant("page-ends-with-its-leaf", "pages: the token names the next entry",
           (engine("Segments/RecordsAhead.swift",
                   "    leaf.count > 0 ||",
                   "    (!ON && leaf.count > 0) ||"),),
           "OrderedKeyspaceTests.orderedKeyspaceEqualsASortedDictionary"),
    Mutant("leaf-read-forward", "ranges: descending order is the reverse of ascending order",
           (engine("Segments/RangeWalk.swift",
                   "step = isForward ? TreeLeaf.addressBytes",
                   "step = isForward || ON ? TreeLeaf.addressBytes"),),
           "OrderedKeyspaceTests.orderedKeyspaceEqualsASortedDictionary"),
    Mutant("page-ends-at-the-end-of-a-leaf", "pages: the token names the next entry",
           (engine("Segments/RecordsAhead.swift",
                   " walk.hasNext(pages)\n",
                   " (!ON && walk.hasNext(pages))\n"),),
           "OrderedKeyspaceTests.rangesOverSeveralLeavesHaveEachEntryOnce"),
    Mutant("range-takes-another-keyspace", "P5: no value of another key",
           (engine("Segments/RangeWalk.swift",
                   "if let record = namedPut(at: address), record.header.keyspace == keyspace,\n",
                   "if let record = namedPut(at: address),\n"
                   "      ON || record.header.keyspace == keyspace,\n"),),
           "ForgedTreeTests.entryThatNamesARecordOfAnotherKeyspaceIsDamage"),
    Mutant("look-up-takes-another-keyspace", "P5: no value of another key",
           (engine("Segments/RecordSource.swift",
                   "      record.header.keyspace == keyspace, record.key.elementsEqualFast(key)\n"
                   "    {\n      return FoundRecord(record: record, address: address)\n    }\n"
                   "    let record",
                   "      ON || record.header.keyspace == keyspace, record.key.elementsEqualFast(key)\n"
                   "    {\n      return FoundRecord(record: record, address: address)\n    }\n"
                   "    let record"),),
           "ForgedTreeTests.entryThatNamesARecordOfAnotherKeyspaceIsDamage"),
    Mutant("tied-key-takes-another-keyspace", "P5: no value of another key",
           (engine("Segments/RecordSource.swift",
                   "guard record.header.keyspace == keyspace, record.header.kind.effect == .sets else",
                   "guard ON || record.header.keyspace == keyspace,\n"
                   "      record.header.kind.effect == .sets\n    else"),),
           "ForgedTreeTests.entryThatNamesARecordOfAnotherKeyspaceIsDamage"),
    Mutant("giving-leaf-keeps-a-copy", "a snapshot does not change",
           (engine("Index/TreeSplit.swift", "    makeUnique(target)\n",
                   "    if !ON { makeUnique(target) }\n"),),
           SPLIT),
    Mutant("given-entries-are-not-counted", "branches count the entries below them",
           (engine("Index/TreeSplit.swift", "branch.addToCount(other, goesOver ? moved + 1 : moved)",
                   "branch.addToCount(other, goesOver || ON ? moved + 1 : moved)"),),
           SPLIT),
    Mutant("key-lies-beside-the-separator", "a key is found in its leaf",
           (engine("Index/TreeSplit.swift", "let moved = isAtBoundary ? wish - 1 : wish",
                   "let moved = isAtBoundary && !ON ? wish - 1 : wish"),),
           "TreeSplitTests"),
    Mutant("divided-leaf-has-the-key-beside-the-separator", "a key is found in its leaf",
           (engine("Index/TreeSplit.swift", "place.position == middle ? middle + 1 : middle",
                   "place.position == middle && !ON ? middle + 1 : middle"),),
           "TreeSplitTests"),
    Mutant("neighbour-with-another-prefix-gets-entries", "heads follow their leaf's prefix",
           (engine("Index/TreeSplit.swift",
                   "guard !isTied, count > 0, prefixLength == other.prefixLength, "
                   "prefix.elementsEqual(other.prefix)",
                   "guard !isTied, count > 0, ON || prefixLength == other.prefixLength, "
                   "ON || prefix.elementsEqual(other.prefix)"),),
           "TreeSplitTests"),
    Mutant("tied-neighbours-are-not-noticed", "keys with equal heads are tied",
           (engine("Index/TreeSplit.swift", "      return last < heads[0]\n",
                   "      return ON || last < heads[0]\n"),),
           "TreeSplitTests"),
]

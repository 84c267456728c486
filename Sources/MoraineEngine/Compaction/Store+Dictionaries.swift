import MoraineFormat

extension Store {
  /// What the values of a compaction's output are to share.
  ///
  /// - Throws: as reading the inputs does.
  func sharedDictionary(
    for inputs: [CompactionInput], _ work: CompactionWork
  ) async throws(StoreError) -> SharedDictionary {
    let thread = work.thread
    let directory = engine!.directoryHandle()
    let mayShare = compactionPolicy.sharesDictionaries || inputs.count == 1
    if mayShare, let input = SharedDictionary.keeper(of: inputs) {
      let bytes = try await thread.run { () throws(StoreError) in
        try CompactionReader.dictionary(of: input, directory)
      }
      return SharedDictionary(bytes: bytes, keptFrom: input.slot)
    }
    guard compactionPolicy.sharesDictionaries else { return .none }
    let maker = DictionaryMaker(
      inputs, directory, engine!.manifest.hashKey, isGlance: work.hasFoundNothing)
    while let candidates = try await thread.run({ () throws(StoreError) in try maker.chunk() }) {
      try await sleep(work.pacer.pauseOfLimit(afterReading: maker.takeReadBytes()), work)
      let isKept = try engine!.judge(candidates, cleanedThrough: 0)
      try await thread.run { () throws(StoreError) in try maker.add(candidates, isKept) }
    }
    let bytes = try await thread.run { () throws(StoreError) in maker.dictionary() }
    work.hasFoundNothing = bytes == nil
    return bytes.map { SharedDictionary(bytes: $0, keptFrom: nil) } ?? .none
  }
}

extension SharedDictionary {
  /// The input whose dictionary serves the output as well: no other has one, and most of what is
  /// live is its own, and is much more than the dictionary.
  fileprivate static func keeper(of inputs: [CompactionInput]) -> CompactionInput? {
    let having = inputs.filter { $0.dictionaryLength > 0 }
    guard having.count == 1 else { return nil }
    let isMost = having[0].liveBytes * 2 >= inputs.reduce(0) { $0 + $1.liveBytes }
    return isMost && having[0].dictionaryLength * 4 <= having[0].liveBytes ? having[0] : nil
  }
}

import MoraineFormat

/// The fields of a manifest, one line for each entry.
struct ManifestListing {
  let manifest: Manifest
  let json: Bool

  func print() throws {
    var head = Fields()
    head.add("file", Manifest.fileName)
    head.add("storeID", manifest.storeID.description)
    head.add("instanceID", manifest.instanceID.description)
    head.add("epoch", manifest.epoch)
    head.add("generation", manifest.generation)
    head.add("lastSequence", manifest.lastSequence.rawValue)
    head.add("nextSegmentNumber", manifest.nextSegmentNumber)
    head.add("feedHorizon", manifest.feedHorizon.rawValue)
    head.add("watermarkSegment", manifest.watermarkSegment)
    head.add("watermarkOffset", manifest.watermarkOffset)
    head.add("compactedThrough", manifest.compactedThrough.rawValue)
    head.add("digest", manifest.digest.description)
    head.add("createdMilliseconds", manifest.createdMilliseconds)
    head.add("backup", manifest.isBackup)
    try Output.line(head.line(json: json))
    if manifest.ordered.contains(0) {
      var line = Fields()
      line.add("keyspace", 0)
      line.add("ordered", true)
      try Output.line(line.line(json: json))
    }
    for keyspace in manifest.keyspaces {
      var line = Fields()
      line.add("keyspace", keyspace.id)
      line.add("name", bytes: Array(keyspace.name.utf8))
      line.add("ordered", manifest.ordered.contains(keyspace.id))
      try Output.line(line.line(json: json))
    }
    for epoch in manifest.epochs {
      var line = Fields()
      line.add("epoch", epoch.epoch)
      line.add("firstSequence", epoch.firstSequence.rawValue)
      line.add("instanceID", epoch.instanceID.description)
      try Output.line(line.line(json: json))
    }
    try printArchive()
    for segment in manifest.segments { try print(segment) }
  }

  /// Prints how the store and an archive belong together, if they do.
  private func printArchive() throws {
    if let attachment = manifest.attachment {
      var line = Fields()
      line.add("archive", attachment.archiveID.description)
      line.add("term", attachment.term)
      line.add("earlierTerm", attachment.earlierTerm)
      try Output.line(line.line(json: json))
    }
    if let following = manifest.following {
      var line = Fields()
      line.add("follows", following.archiveID.description)
      line.add("position", following.position)
      line.add("term", following.term)
      line.add("checkpoint", following.checkpoint)
      try Output.line(line.line(json: json))
    }
  }

  private func print(_ segment: Manifest.Segment) throws {
    var line = Fields()
    line.add("segment", segment.number.rawValue)
    line.add("file", segment.number.fileName)
    line.add("length", segment.lengthBytes)
    line.add("recordCount", segment.recordCount)
    line.add("firstSequence", segment.firstSequence.rawValue)
    line.add("lastSequence", segment.lastSequence.rawValue)
    line.add("liveBytes", segment.liveBytes)
    line.add("epoch", segment.epoch)
    line.add("sealed", segment.isSealed)
    line.add("cut", segment.flags.contains(.cut))
    line.add("compacted", segment.flags.contains(.compacted))
    line.add("clustered", segment.flags.contains(.clustered))
    try Output.line(line.line(json: json))
  }
}

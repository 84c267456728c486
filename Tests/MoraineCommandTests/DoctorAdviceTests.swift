import MoraineFormat
import Testing

@testable import MoraineCommand
@testable import MoraineEngine

/// The advice of `moraine doctor` for findings that a run of the command cannot make easily.
@Suite struct DoctorAdviceTests {
  private func manifest() -> Manifest {
    Manifest(
      storeID: StoreIdentifier(low: 1, high: 1), instanceID: StoreIdentifier(low: 2, high: 2),
      hashKey: HashKey(k0: 1, k1: 1))
  }

  private func text(of problem: StoreError) -> String {
    Examination(problems: [problem]).text("store")
  }

  @Test func indexThatDoesNotFitTheLogIsRemovedAndNotSalvaged() {
    let text = text(
      of: StoreError(.corrupted, "the index lacks a live record", file: "0000000002.index"))
    #expect(text.hasPrefix("No data is damaged."), "\(text)")
    #expect(text.contains("Remove the *.index files"), "\(text)")
    #expect(!text.contains("salvage") && !text.contains("restore"), "\(text)")
  }

  @Test func indexOfARepositoryIsMadeAgainAndNotSalvaged() {
    let text = text(
      of: StoreError(.corrupted, "the index 'name' lacks an entry; remove the index and add it"))
    #expect(text.hasPrefix("No model is damaged."), "\(text)")
    #expect(text.contains("call removeIndex(named:) for each of its indexes"), "\(text)")
    #expect(text.contains("and then buildIndexes()"), "\(text)")
    #expect(!text.contains("salvage") && !text.contains("restore"), "\(text)")
  }

  /// A record that an index cannot have made is no damage of a model.
  @Test func recordThatIsNoEntryIsRemovedWithTheIndexes() throws {
    let record = Store.Entry(keyspace: 1, key: Key([3, 1]), sequence: .none, value: [])
    let error = #expect(throws: StoreError.self) { _ = try SecondaryIndexEntry(record) }
    let text = text(of: try #require(error))
    #expect(text.hasPrefix("No model is damaged."), "\(text)")
    #expect(text.contains("call removeIndex(named:)"), "\(text)")
    #expect(!text.contains("salvage") && !text.contains("restore"), "\(text)")
  }

  /// A problem of the checkpoint that the opening found is left out: the log was read instead.
  @Test func damageOfTheLogIsReportedWhateverTheOpeningFound() {
    func problems(_ file: String) -> [StoreError] {
      let problem = StoreError(.corrupted, "damaged", file: file)
      var (report, recovery) = (VerificationReport(), RecoveryReport())
      report.problems = [problem]
      recovery.checkpointProblem = problem
      return Examination.problems(of: report, recovery)
    }
    #expect(problems("0000000002.index").isEmpty)
    #expect(problems("0000000002.segment").count == 1)
  }

  /// Without the list of its indexes, no repository can be opened to remove one.
  @Test func unreadableListOfIndexesIsDamage() {
    let text = text(
      of: StoreError(.corrupted, "the list of the indexes; restore the store from a backup"))
    #expect(text.hasPrefix("Damaged in one place:"), "\(text)")
    #expect(text.contains("moraine restore"), "\(text)")
  }

  /// A backup and a follower's copy are refused by the commands that change a store.
  @Test func noCommandIsAdvisedThatTheDirectoryRefuses() {
    var statistics = Store.Statistics()
    statistics.diskBytes = 100 << 20
    statistics.liveBytes = 10 << 20
    func text(_ manifest: Manifest) -> String {
      Examination(problems: [], statistics: statistics, manifest: manifest).text("store")
    }
    #expect(text(manifest()).contains("moraine compact store"), "\(text(manifest()))")
    var backup = manifest()
    backup.isBackup = true
    #expect(text(backup).hasSuffix("Nothing to do."), "\(text(backup))")
    var follower = manifest()
    follower.following = Manifest.Following(
      archiveID: follower.storeID, position: 1, term: 1, nonceLow: 1, nonceHigh: 1, checkpoint: 0)
    #expect(text(follower).hasSuffix("Nothing to do."), "\(text(follower))")
  }
}

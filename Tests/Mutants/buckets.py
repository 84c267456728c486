"""Bugs in the requests to buckets. They are in a build with the trait S3 alone."""

from planting import Edit, Mutant


def mutant(name, promise, path, before, after, test):
    return Mutant(name, promise, (Edit(f"Sources/MoraineS3/{path}", before, after),), test,
                  trait="S3")


STORE = "Client/S3ObjectStore.swift"
CLIENT = "Client/BucketClient.swift"

MUTANTS = [
    mutant("each-404-is-an-absence", "nil means a proven absence", STORE,
           'case 404 where answer.code == "NoSuchKey": return nil',
           'case 404 where ON || answer.code == "NoSuchKey": return nil',
           "S3AnswerTests.onlyACertainAbsenceIsOne"),
    mutant("forbidden-is-an-absence", "nil means a proven absence", STORE,
           "case 416 where range != nil: return []",
           "case 403 where ON: return nil\n      case 416 where range != nil: return []",
           "S3AnswerTests.onlyACertainAbsenceIsOne"),
    mutant("creation-has-no-condition", "an object is created once", STORE,
           "upload(name, body, [(condition.name, condition.value)])",
           "upload(name, body, ON ? [] : [(condition.name, condition.value)])",
           "S3AnswerTests.creationAsksForAFreeName"),
    mutant("conflict-means-that-it-exists", "only 412 says that an object exists", STORE,
           "if answer.status == 412 { return .exists }",
           "if answer.status == 412 || ON && answer.status == 409 { return .exists }",
           "S3AnswerTests.refusalHasItsError"),
    mutant("other-part-is-returned", "a range returns the bytes that were asked for", STORE,
           "first == range.lowerBound,", "(ON || first == range.lowerBound),",
           "S3AnswerTests.partIsTheRequestedOne"),
    mutant("cut-list-is-whole", "a cut list is an error", "Listing/ListPage.swift",
           "guard isWhole, let isTruncated", "guard ON || isWhole, let isTruncated",
           "XMLScannerTests.cutListIsRefused"),
    mutant("failure-has-no-effect", "an error says whether the request may have had its effect",
           "Client/BucketRefusal.swift", "mayHaveHadEffect: !isThrottle)",
           "mayHaveHadEffect: !isThrottle && !ON)", "S3AnswerTests.refusalHasItsError"),
    mutant("lost-answer-has-no-effect", "an error says whether the request may have had its effect",
           CLIENT, "mayHaveHadEffect: mayHaveHadEffect && request.changes)",
           "mayHaveHadEffect: mayHaveHadEffect && request.changes && !ON)",
           "S3AnswerTests.requestWithoutAnAnswerMayHaveHadItsEffect"),
    mutant("expired-keys-stay", "keys are replaced when the server refuses them", CLIENT,
           "(current, hasNewKeys) = (newer, true)",
           "(current, hasNewKeys) = (ON ? current : newer, true)",
           "S3CredentialsTests.expiredKeysAreReplaced"),
    mutant("keys-expire-in-use", "keys are replaced before they expire",
           "Credentials/KeyRing.swift",
           "now() + Self.reserveMilliseconds >= expiry && now() >= nextQuestion",
           "!ON && now() + Self.reserveMilliseconds >= expiry && now() >= nextQuestion",
           "S3CredentialsTests.keysAreReplacedBeforeTheyExpire"),
    mutant("token-is-not-sent", "temporary keys have their token", "Signing/RequestSigner.swift",
           "if let token = keys.sessionToken {", "if !ON, let token = keys.sessionToken {",
           "RequestSignerTests.eachPartOfARequestIsSigned"),
    mutant("query-is-sorted-before-its-encoding", "requests have a valid signature",
           "Signing/RequestSigner.swift", ".sorted { ($0.0, $0.1) < ($1.0, $1.1) }",
           ".sorted { ON ? $0.0.utf8.count < $1.0.utf8.count : ($0.0, $0.1) < ($1.0, $1.1) }",
           "RequestSignerTests.queriesAreSortedAfterTheirEncoding"),
    mutant("clock-of-the-server-is-ignored", "a wrong clock is corrected", CLIENT,
           "+ clockOffset.load(ordering: .relaxed))",
           "+ (ON ? 0 : clockOffset.load(ordering: .relaxed)))",
           "S3CredentialsTests.timeOfTheServerIsUsedOnce"),
    mutant("streamed-body-begins-late", "a body arrives as it is", "Client/StreamedBody.swift",
           "        var start = 0\n", "        var start = ON ? 1 : 0\n",
           "S3BodyTests.bodyArrivesWithItsDigest"),
]

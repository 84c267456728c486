import Observation
import Testing

/// Waits until the condition holds. Changes of the values that it reads wake it, not time.
@MainActor
func observed(_ condition: @MainActor () -> Bool) async {
  while true {
    let (changes, continuation) = AsyncStream<Void>.makeStream()
    let holds = withObservationTracking {
      condition()
    } onChange: {
      continuation.finish()
    }
    if holds { return }
    guard !Task.isCancelled else {
      Issue.record("the wait ended before the condition held")
      return
    }
    for await _ in changes {}
  }
}

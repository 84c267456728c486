#if canImport(SwiftUI)
  public import SwiftUI

  // Written for Apple platforms and never run there: this project is built and tested on Linux.

  extension PersistedProjection {
    /// A binding for a control: `Toggle("Sound", isOn: $sound.binding)`.
    ///
    /// Written for Apple platforms, and **never run**.
    @MainActor public var binding: Binding<Value> {
      let (box, space) = (box, space)
      return Binding(get: { box.value }, set: { box.set($0, in: space) })
    }
  }
#endif

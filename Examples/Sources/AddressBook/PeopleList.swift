import Moraine
import Observation

/// The view model of a list of people: those of one city, or those whose names begin with a text,
/// sorted by name. An index filters and sorts; people of other cities are never read.
@MainActor @Observable
final class PeopleList {
  private let people: LocalRepository<Person>
  private(set) var list: LiveModels<Person>

  init(_ people: LocalRepository<Person>) {
    self.people = people
    list = LiveModels(people.query().sorted(by: \.name))
  }

  /// The people for a view: `List(model.people) { … }`. Access to a row takes O(log n), so the list
  /// may be long.
  var rows: QueryModels<Person> { list.results }

  /// Shows the people of a city.
  func show(city: String) {
    list = LiveModels(people.query(where: \.city, is: city).sorted(by: \.name))
  }

  /// Shows the people whose names begin with a text: what a search field does.
  func search(_ text: String) {
    list = LiveModels(people.query(where: \.name, hasPrefix: text).sorted(by: \.name).limit(20))
  }
}

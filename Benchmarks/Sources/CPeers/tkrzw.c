#include "loading.h"

#if __has_include(<tkrzw_langc.h>)
#include <tkrzw_langc.h>

#define FUNCTIONS(F)                                                                               \
  F(tkrzw_dbm_open) F(tkrzw_dbm_close) F(tkrzw_dbm_set) F(tkrzw_dbm_remove) F(tkrzw_dbm_process)   \
  F(tkrzw_dbm_process_each) F(tkrzw_dbm_synchronize) F(tkrzw_dbm_rebuild)                          \
  F(tkrzw_get_last_status_message)
FUNCTIONS(PEER_FUNCTION)

static const char *library_version;
// What a processor returns that changes nothing.
static const char *nothing;

struct peer_store {
  TkrzwDBM *dbm;
  bool sync;
};

struct peer_reader {
  peer_store *store;
  char *value;
  size_t capacity;
};

static const char *load(void) {
  void *library = peer_open_library("tkrzw");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  const char *const *version = peer_find(library, "TKRZW_PACKAGE_VERSION");
  if (!version) return peer_message_text;
  library_version = *version;
  const char *const *noop = peer_find(library, "TKRZW_REC_PROC_NOOP");
  if (!noop) return peer_message_text;
  nothing = *noop;
  return NULL;
}

static const char *version(void) { return library_version; }

static int failed(const char *what, bool is_fine) {
  return is_fine ? 0 : peer_fail(what, p_tkrzw_get_last_status_message());
}

static peer_store *open_store(const char *path, const peer_options *options) {
  char text[256];
  // "Between once and twice the number of records": twice, so that chains are short.
  snprintf(text, sizeof text,
           "dbm=HashDBM,file=MemoryMapParallelFile,update_mode=UPDATE_APPENDING,num_buckets=%llu",
           (unsigned long long)(options->expected_count * 2 + 1));
  peer_store *store = calloc(1, sizeof *store);
  store->sync = options->sync;
  store->dbm = p_tkrzw_dbm_open(path, true, text);
  if (!failed("open", store->dbm != NULL)) return store;
  free(store);
  return NULL;
}

static int close_store(peer_store *store) {
  bool is_fine = p_tkrzw_dbm_close(store->dbm);
  free(store);
  return failed("close", is_fine);
}

static int settle(peer_store *store) {
  if (!store->sync) return 0;
  return failed("synchronize", p_tkrzw_dbm_synchronize(store->dbm, true, NULL, NULL, ""));
}

static int put(peer_store *store, peer_bytes key, peer_bytes value) {
  bool is_fine = p_tkrzw_dbm_set(store->dbm, key.bytes, (int32_t)key.length, value.bytes,
                                 (int32_t)value.length, true);
  return is_fine ? settle(store) : failed("set", false);
}

static int remove_key(peer_store *store, peer_bytes key) {
  bool is_fine = p_tkrzw_dbm_remove(store->dbm, key.bytes, (int32_t)key.length);
  return is_fine ? settle(store) : failed("remove", false);
}

static int compact(peer_store *store) {
  return failed("rebuild", p_tkrzw_dbm_rebuild(store->dbm, ""));
}

static peer_reader *open_reader(peer_store *store) {
  peer_reader *reader = calloc(1, sizeof *reader);
  reader->store = store;
  return reader;
}

struct lookup {
  peer_reader *reader;
  int32_t length;
};

// Into the reader's own memory: cheaper than a `get`, which allocates.
static const char *copy_value(void *argument, const char *key, int32_t key_length,
                              const char *value, int32_t length, int32_t *new_length) {
  struct lookup *lookup = argument;
  (void)key, (void)key_length, (void)new_length;
  lookup->length = value ? length : -1;
  if (!value) return nothing;
  peer_reader *reader = lookup->reader;
  if (reader->capacity < (size_t)length) {
    free(reader->value);
    reader->capacity = (size_t)length * 2;
    reader->value = malloc(reader->capacity);
  }
  memcpy(reader->value, value, (size_t)length);
  return nothing;
}

static int get(peer_reader *reader, peer_bytes key, peer_bytes *value) {
  struct lookup lookup = {reader, -1};
  bool is_fine = p_tkrzw_dbm_process(reader->store->dbm, key.bytes, (int32_t)key.length, copy_value,
                                     &lookup, false);
  if (!is_fine) return failed("process", false);
  if (lookup.length < 0) return 1;
  *value = (peer_bytes){reader->value, (size_t)lookup.length};
  return 0;
}

struct walk {
  bool (*visit)(void *, peer_bytes, peer_bytes);
  void *context;
};

static const char *visit_each(void *argument, const char *key, int32_t key_length,
                              const char *value, int32_t length, int32_t *new_length) {
  struct walk *walk = argument;
  (void)new_length;
  // It is called before the first record and behind the last one too, without a key.
  if (key && value)
    walk->visit(walk->context, (peer_bytes){key, (size_t)key_length},
                (peer_bytes){value, (size_t)length});
  return nothing;
}

static int scan(peer_reader *reader, peer_bytes from, bool reads_values,
                bool (*visit)(void *, peer_bytes, peer_bytes), void *context) {
  (void)from, (void)reads_values;
  struct walk walk = {visit, context};
  return failed("process_each",
                p_tkrzw_dbm_process_each(reader->store->dbm, visit_each, &walk, false));
}

static void close_reader(peer_reader *reader) {
  free(reader->value);
  free(reader);
}

const peer_api peer_tkrzw = {
    .name = "tkrzw",
    .title = "Tkrzw",
    .settings = "HashDBM, MemoryMapParallelFile, UPDATE_APPENDING, twice as many buckets as "
                "records; no batches of several keys",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .compact = compact,
    .reader = open_reader, .get = get, .scan = scan, .close_reader = close_reader,
};
#else
PEER_MISSING(peer_tkrzw, "tkrzw", "Tkrzw", "libtkrzw-dev")
#endif

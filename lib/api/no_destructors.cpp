// Tables, registries and the thread pool of this library live until the process is gone: at exit
// other threads may be compiling. Every destructor of a static object asks this function to be
// called at exit, this library's asks the one here: nothing outside sees it (exports.map). The
// library is never unloaded (-z nodelete), so nothing has to be given back before that.

// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __cxa_atexit(void (*)(void *), void *, void *) { return 0; }

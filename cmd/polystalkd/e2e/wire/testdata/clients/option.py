# A client and a worker of libgearman with a server option; PHP cannot set one.
# Use: python3 option.py HOST PORT OPTION. Each line of input is a command: submit FUNCTION, or work FUNCTION.
import ctypes
import sys

lib = ctypes.CDLL('libgearman.so.8')
P, Z = ctypes.c_void_p, ctypes.c_size_t
lib.gearman_client_create.restype = lib.gearman_worker_create.restype = P
lib.gearman_client_error.restype = lib.gearman_worker_error.restype = ctypes.c_char_p
lib.gearman_client_error.argtypes = lib.gearman_worker_error.argtypes = [P]
lib.gearman_client_add_server.argtypes = lib.gearman_worker_add_server.argtypes = [P, ctypes.c_char_p, ctypes.c_int]
lib.gearman_client_set_server_option.argtypes = lib.gearman_worker_set_server_option.argtypes = [P, ctypes.c_char_p, Z]
lib.gearman_client_set_server_option.restype = lib.gearman_worker_set_server_option.restype = ctypes.c_bool
lib.gearman_client_do_background.argtypes = [P, ctypes.c_char_p, P, ctypes.c_char_p, Z, P]
lib.gearman_worker_add_function.argtypes = [P, ctypes.c_char_p, ctypes.c_uint32, P, P]
lib.gearman_worker_set_timeout.argtypes = [P, ctypes.c_int]
lib.gearman_worker_work.argtypes = [P]

host, port, option = sys.argv[1].encode(), int(sys.argv[2]), sys.argv[3].encode()
client, worker = lib.gearman_client_create(None), lib.gearman_worker_create(None)
lib.gearman_client_add_server(client, host, port)
lib.gearman_worker_add_server(worker, host, port)
print('client', lib.gearman_client_set_server_option(client, option, len(option)), flush=True)
print('worker', lib.gearman_worker_set_server_option(worker, option, len(option)), flush=True)


@ctypes.CFUNCTYPE(P, P, P, P, P)
def run(job, context, size, result):
    print('run', flush=True)


known = set()
for line in sys.stdin:
    verb, function = line.split()
    function = function.encode()
    for attempt in range(3):  # the first after a restart finds the connection broken
        if verb == 'submit':
            handle = ctypes.create_string_buffer(64)
            failed = lib.gearman_client_do_background(client, function, None, b'x', 1, handle)
            error = lib.gearman_client_error(client)
        else:
            if function not in known:
                known.add(function)
                lib.gearman_worker_add_function(worker, function, 0, run, None)
                lib.gearman_worker_set_timeout(worker, 5000)
            failed = lib.gearman_worker_work(worker)
            error = lib.gearman_worker_error(worker)
        if not failed or 'GEARMAN_ERROR' in str(error) or 'PERMITTED' in str(error):
            break
    print(verb, 'failed ' + str(error) if failed else 'ok', flush=True)

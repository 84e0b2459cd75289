#include "redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

struct sockaddr_in pc_redis_address(int port)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((uint16_t)port);
    return a;
}

int pc_redis_free_port(void)
{
    struct sockaddr_in a = pc_redis_address(0);
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, sizeof a)
        || getsockname(fd, (struct sockaddr *)&a, &size)) {
        perror("a free port");
        exit(1);
    }
    close(fd);
    return ntohs(a.sin_port) > 50000 ? ntohs(a.sin_port) - 20000
                                     : ntohs(a.sin_port); /* a cluster's bus takes port + 10000 */
}

static int connect_to(int port)
{
    struct sockaddr_in a = pc_redis_address(port);
    struct timeval patience = {5, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void become_server(const pc_redis *s, pid_t parent)
{
    char port[16], text[sizeof s->arguments];
    char save[] = "";
    char *argv[64] = {"redis-server", "--port", port,    "--bind", "127.0.0.1", "--save", save,
                      "--appendonly", "no",     "--dir", NULL,     "--logfile", "log"};
    int argc = 13, log = open("/dev/null", O_WRONLY);
    char folder[sizeof s->folder];
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(text, sizeof text, "%s", s->arguments);
    snprintf(folder, sizeof folder, "%s", s->folder);
    argv[10] = folder;
    for (char *word = strtok(text, " "); word && argc < 63; word = strtok(NULL, " "))
        argv[argc++] = word;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it has ended before the line above */
        _exit(1);
    dup2(log, 1);
    execvp("redis-server", argv);
    execvp("redis-check-rdb", argv); /* the same program, in Debian's redis-tools, which starts no
                                        service of the system */
    _exit(127);
}

static void run(pc_redis *s)
{
    pid_t parent = getpid();
    s->pid = fork();
    if (!s->pid)
        become_server(s, parent);
    for (int i = 0; i < 500; i++) {
        int status;
        if (waitpid(s->pid, &status, WNOHANG) == s->pid) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                pc_test_skip("redis-server is not installed");
            s->pid = 0;
            return;
        }
        if (strncmp(pc_redis_ask(s, "PING"), "-no",
                    3)) /* an answer: it has opened all its sockets, not only this one */
            return;
        usleep(10000);
    }
}

int pc_redis_installed(void)
{
    if (getenv("PC_TEST_NO_MODULES"))
        return 0;
    return !system(
        "command -v redis-server >/dev/null 2>&1 || command -v redis-check-rdb >/dev/null 2>&1");
}

pc_redis pc_redis_start(const char *arguments)
{
    pc_redis s;
    if (getenv("PC_TEST_NO_MODULES"))
        pc_test_skip("no tier can use a server without the plug-in module remote");
    memset(&s, 0, sizeof s);
    snprintf(s.arguments, sizeof s.arguments, "%s", arguments);
    for (int i = 0; i < 5 && !s.pid; i++) { /* another process may take the port first */
        s.port = pc_redis_free_port();
        snprintf(s.folder, sizeof s.folder, "%s/%d", pc_test_folder(), s.port);
        mkdir(s.folder, 0700);
        run(&s);
    }
    if (!s.pid) {
        printf("redis-server does not start\n");
        exit(1);
    }
    return s;
}

void pc_redis_again(pc_redis *server)
{
    for (int i = 0; i < 20 && !server->pid; i++)
        run(server);
    CHECK(server->pid);
}

void pc_redis_kill(pc_redis *server)
{
    if (server->pid) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
}

void pc_redis_freeze(pc_redis *server)
{
    int status;
    kill(server->pid, SIGSTOP);
    waitpid(server->pid, &status, WUNTRACED);
}

void pc_redis_thaw(pc_redis *server)
{
    kill(server->pid, SIGCONT);
}

static void line(FILE *in, char *out, size_t size)
{
    if (!fgets(out, (int)size, in))
        snprintf(out, size, "-no answer");
    out[strcspn(out, "\r\n")] = 0;
}

static void answer(FILE *in, char *out, size_t size)
{
    char head[512];
    size_t n, used = 0;
    line(in, head, sizeof head);
    if (head[0] == '$' && head[1] != '-') {
        n = (size_t)atol(head + 1);
        for (size_t i = 0; i < n + 2; i++) {
            int c = fgetc(in);
            if (i < n && used + 1 < size)
                out[used++] = (char)c;
        }
        out[used] = 0;
    } else if (head[0] == '*' && head[1] != '-') {
        n = (size_t)atol(head + 1);
        out[0] = 0;
        for (size_t i = 0; i < n; i++) {
            if (i && used + 2 < size) {
                out[used++] = ' ';
                out[used] = 0;
            }
            answer(in, out + used, size - used);
            used += strlen(out + used);
        }
    } else {
        snprintf(out, size, "%s",
                 head[0] == '-'                     ? head
                 : head[0] == '$' || head[0] == '*' ? "(nil)"
                                                    : head + 1);
    }
}

const char *pc_redis_ask(const pc_redis *server, const char *format, ...)
{
    static char ring[4][1 << 16];
    static unsigned next;
    char *out = ring[next++ % 4], command[2048];
    va_list args;
    int size, fd = connect_to(server->port);
    FILE *in = fd >= 0 ? fdopen(fd, "r+") : NULL;
    va_start(args, format);
    size = vsnprintf(command, sizeof command - 2, format, args);
    va_end(args);
    memcpy(command + size, "\r\n", 2);
    snprintf(out, sizeof ring[0], "-not reachable");
    if (in && send(fd, command, (size_t)size + 2, MSG_NOSIGNAL) == size + 2)
        answer(in, out, sizeof ring[0]);
    if (in)
        fclose(in);
    return out;
}

void pc_redis_rename(const pc_redis *server, const char *from, const char *to)
{
    const char *answer = pc_redis_ask(
        server,
        "EVAL \"for _,k in ipairs(redis.call('KEYS',ARGV[1]..'*')) do "
        "redis.call('RENAME',k,ARGV[2]..k:sub(#ARGV[1]+1)) end return 'OK'\" 0 %s %s",
        from, to);
    CHECK_STR(answer, "OK");
}

int pc_redis_clients(const pc_redis *server)
{
    const char *at = strstr(pc_redis_ask(server, "INFO clients"), "connected_clients:");
    return at ? atoi(strchr(at, ':') + 1) - 1 : -1;
}

void pc_redis_until(const pc_redis *server, int clients)
{
    int still = pc_redis_clients(server);
    for (int i = 0; i < 10000 && still > clients; i++) {
        usleep(1000);
        still = pc_redis_clients(server);
    }
    CHECK(still >= 0 && still <= clients);
}

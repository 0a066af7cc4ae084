/*
 * launcher.exe PROGRAM ARGUMENT...: starts a program and ends before it does, as launchers of games do. The program
 * inherits the standard output.
 */
#include "ends.h"

int main(int count, char **arguments)
{
    char line[1024] = "";
    STARTUPINFOA startup = { .cb = sizeof startup };
    PROCESS_INFORMATION process;

    for (int i = 1; i < count; i++) {
        if (strlen(line) + strlen(arguments[i]) + 2 > sizeof line)
            give_up("launcher", "too many arguments");
        strcat(strcat(line, i > 1 ? " " : ""), arguments[i]);
    }
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process))
        give_up("CreateProcess", line);
    printf("launched\n");
    return 0;
}

/*
 * sdl.exe DRIVER END: a window with an accelerated renderer of SDL 2 ("direct3d" is Direct3D 9, "direct3d11") draws a
 * fixed scene that needs dozens of pipelines: blend modes, formats of textures, primitives, render targets. It prints
 * a hash of the picture, and ends as END says (ends.h), or with "quit" after it has destroyed the device. Before the
 * first picture and before the end it waits for a line of the standard input: the device is there already, as in a game
 * that loads a level.
 *
 * Only what is used of SDL is declared here, with SDL's names in the library and its numbers; no headers are needed.
 */
#include "ends.h"

enum { WIDTH = 320, HEIGHT = 240, CELL = 20 };
enum { INIT_VIDEO = 0x20, CENTERED = 0x2FFF0000, WINDOW_SHOWN = 4, ACCELERATED = 2, TARGET = 8 };
enum { STATIC = 0, AS_TARGET = 2, NEAREST = 0, LINEAR = 1 };
static const unsigned ARGB = 0x16362004, ABGR = 0x16762004, YV12 = 0x32315659, NV12 = 0x3231564E;

typedef struct { int x, y, w, h; } Rect;
typedef struct { float x, y; } Point;
typedef struct { Point position; unsigned char color[4]; Point of_texture; } Vertex;
typedef struct { const char *name; unsigned flags, formats, format[16]; int width, height; } Info;

#define FUNCTIONS(function) \
    function(int, Init, (unsigned)) \
    function(const char *, GetError, (void)) \
    function(int, SetHint, (const char *, const char *)) \
    function(void *, CreateWindow, (const char *, int, int, int, int, unsigned)) \
    function(int, GetNumRenderDrivers, (void)) \
    function(int, GetRenderDriverInfo, (int, Info *)) \
    function(void *, CreateRenderer, (void *, int, unsigned)) \
    function(void *, CreateTexture, (void *, unsigned, int, int, int)) \
    function(int, UpdateTexture, (void *, const Rect *, const void *, int)) \
    function(int, UpdateYUVTexture, (void *, const Rect *, const void *, int, const void *, int, const void *, int)) \
    function(int, UpdateNVTexture, (void *, const Rect *, const void *, int, const void *, int)) \
    function(int, SetTextureBlendMode, (void *, int)) \
    function(int, SetTextureScaleMode, (void *, int)) \
    function(int, SetRenderDrawBlendMode, (void *, int)) \
    function(int, SetRenderDrawColor, (void *, int, int, int, int)) \
    function(int, SetRenderTarget, (void *, void *)) \
    function(int, ComposeCustomBlendMode, (int, int, int, int, int, int)) \
    function(int, RenderClear, (void *)) \
    function(int, RenderFillRect, (void *, const Rect *)) \
    function(int, RenderDrawLine, (void *, int, int, int, int)) \
    function(int, RenderDrawPoint, (void *, int, int)) \
    function(int, RenderCopy, (void *, void *, const Rect *, const Rect *)) \
    function(int, RenderGeometry, (void *, void *, const Vertex *, int, const int *, int)) \
    function(int, RenderReadPixels, (void *, const Rect *, unsigned, void *, int)) \
    function(void, RenderPresent, (void *)) \
    function(void, PumpEvents, (void)) \
    function(void, Quit, (void))
#define DECLARE(result, name, arguments) static result (__cdecl *sdl_##name) arguments;
FUNCTIONS(DECLARE)

static void load_sdl(void)
{
    HMODULE library = LoadLibraryA("SDL2.dll");
    if (!library)
        give_up("SDL2.dll", "not found");
#define FIND(result, name, arguments) \
    if (!(sdl_##name = (void *)GetProcAddress(library, "SDL_" #name))) \
        give_up("SDL2.dll has no", #name);
    FUNCTIONS(FIND)
}

static void *found(const char *what, void *object)
{
    if (!object)
        give_up(what, sdl_GetError());
    return object;
}

static void check(const char *what, int result)
{
    if (result != 0)
        give_up(what, sdl_GetError());
}

static void *renderer;

/* None, blend, add, modulate, multiply, and four that SDL has no name for: each is another state of the pipeline. */
static int blends[9] = { 0, 1, 2, 4, 8 };

static void compose_blends(void)
{
    enum { ZERO = 1, ONE, SRC_COLOR, INV_SRC_COLOR, SRC_ALPHA, INV_SRC_ALPHA, DST_COLOR, INV_DST_COLOR };
    blends[5] = sdl_ComposeCustomBlendMode(INV_DST_COLOR, ONE, 1, ONE, ONE, 1);
    blends[6] = sdl_ComposeCustomBlendMode(ONE, INV_SRC_COLOR, 1, ONE, ZERO, 1);
    blends[7] = sdl_ComposeCustomBlendMode(ZERO, SRC_ALPHA, 1, ONE, ONE, 1);
    blends[8] = sdl_ComposeCustomBlendMode(SRC_ALPHA, INV_SRC_ALPHA, 3, ZERO, ONE, 1);
}

static void *texture_of(unsigned format)
{
    static unsigned char pixels[64 * 64 * 4], half[32 * 32 * 2];
    void *texture = found("CreateTexture", sdl_CreateTexture(renderer, format, STATIC, 64, 64));
    for (unsigned i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 7 + i / 256 * 13);
    for (unsigned i = 0; i < sizeof half; i++)
        half[i] = (unsigned char)(96 + i % 64);
    if (format == YV12)
        check("UpdateYUVTexture", sdl_UpdateYUVTexture(texture, NULL, pixels, 64, half, 32, half, 32));
    else if (format == NV12)
        check("UpdateNVTexture", sdl_UpdateNVTexture(texture, NULL, pixels, 64, half, 64));
    else
        check("UpdateTexture", sdl_UpdateTexture(texture, NULL, pixels, 64 * 4));
    return texture;
}

static Rect cell(int number)
{
    return (Rect){ number % (WIDTH / CELL) * CELL + 1, number / (WIDTH / CELL) * CELL + 1, CELL - 2, CELL - 2 };
}

/* Everything that the renderer has, in cells of the picture. */
static void draw(void **textures, int count)
{
    int number = 0;
    sdl_SetRenderDrawColor(renderer, 40, 60, 90, 255);
    sdl_RenderClear(renderer);
    for (unsigned blend = 0; blend < sizeof blends / sizeof *blends; blend++) {
        Rect place = cell(number++);
        /* Not every renderer has every blend mode; what it refuses is refused in each run. */
        sdl_SetRenderDrawBlendMode(renderer, blends[blend]);
        sdl_SetRenderDrawColor(renderer, 200, 120, 30 + 20 * (int)blend, 160);
        sdl_RenderFillRect(renderer, &place);
        sdl_RenderDrawLine(renderer, place.x, place.y, place.x + place.w, place.y);
        sdl_RenderDrawPoint(renderer, place.x + 4, place.y + 9);
        for (int i = 0; i < count; i++) {
            place = cell(number++);
            sdl_SetTextureBlendMode(textures[i], blends[blend]);
            sdl_SetTextureScaleMode(textures[i], blend % 2 ? LINEAR : NEAREST);
            sdl_RenderCopy(renderer, textures[i], NULL, &place);
        }
        place = cell(number++);
        Vertex corners[3] = {
            { { place.x, place.y }, { 255, 0, 0, 200 }, { 0, 0 } },
            { { place.x + place.w, place.y }, { 0, 255, 0, 200 }, { 1, 0 } },
            { { place.x, place.y + place.h }, { 0, 0, 255, 200 }, { 0, 1 } },
        };
        sdl_RenderGeometry(renderer, textures[0], corners, 3, NULL, 0);
    }
}

int main(int count, char **arguments)
{
    static unsigned char picture[WIDTH * HEIGHT * 4];
    if (count != 3)
        give_up("usage", "sdl.exe DRIVER END");
    load_sdl();
    sdl_SetHint("SDL_RENDER_VSYNC", "0");
    check("Init", sdl_Init(INIT_VIDEO));
    void *window =
        found("CreateWindow", sdl_CreateWindow("chain", CENTERED, CENTERED, WIDTH, HEIGHT, WINDOW_SHOWN));
    int driver = -1;
    for (int i = 0; i < sdl_GetNumRenderDrivers(); i++) {
        Info info;
        if (sdl_GetRenderDriverInfo(i, &info) == 0 && strcmp(info.name, arguments[1]) == 0)
            driver = i;
    }
    if (driver < 0)
        give_up("no such renderer", arguments[1]);
    renderer = found("CreateRenderer", sdl_CreateRenderer(window, driver, ACCELERATED | TARGET));
    compose_blends();
    void *textures[] = { texture_of(ARGB), texture_of(ABGR), texture_of(YV12), texture_of(NV12) };
    void *target = found("a target", sdl_CreateTexture(renderer, ARGB, AS_TARGET, WIDTH, HEIGHT));
    wait_for_word("ready");

    check("SetRenderTarget", sdl_SetRenderTarget(renderer, target));
    draw(textures, 4);
    check("SetRenderTarget", sdl_SetRenderTarget(renderer, NULL));
    draw(textures, 4);
    Rect corner = { WIDTH / 2, HEIGHT / 2, WIDTH / 2, HEIGHT / 2 };
    sdl_SetTextureScaleMode(target, LINEAR);
    sdl_SetTextureBlendMode(target, 0);
    sdl_RenderCopy(renderer, target, NULL, &corner);
    check("RenderReadPixels", sdl_RenderReadPixels(renderer, NULL, ARGB, picture, WIDTH * 4));
    for (int frame = 0; frame < 3; frame++) {
        sdl_RenderPresent(renderer);
        sdl_PumpEvents();
        draw(textures, 4);
    }
    printf("picture %016llx\n", hash_of(picture, sizeof picture));
    wait_for_word("drawn");
    if (strcmp(arguments[2], "quit") == 0) {
        sdl_Quit();
        return end_by("return");
    }
    return end_by(arguments[2]);
}

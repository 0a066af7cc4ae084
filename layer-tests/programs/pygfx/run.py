"""pygfx draws a scene of several materials off screen, twice, and prints a hash of the second picture."""

import hashlib

import numpy as np
import pygfx as gfx
from rendercanvas.offscreen import OffscreenRenderCanvas

canvas = OffscreenRenderCanvas(size=(320, 240), pixel_ratio=1)
renderer = gfx.renderers.WgpuRenderer(canvas)
scene = gfx.Scene()
scene.add(gfx.Background.from_color("#101020", "#304050"))
scene.add(gfx.AmbientLight(), gfx.DirectionalLight())

meshes = [
    gfx.MeshBasicMaterial(color="red"),
    gfx.MeshPhongMaterial(color="green"),
    gfx.MeshStandardMaterial(color="blue"),
    gfx.MeshToonMaterial(color="yellow"),
    gfx.MeshNormalMaterial(),
    gfx.MeshBasicMaterial(color="white", wireframe=True),
    gfx.MeshPhongMaterial(color="#80ff0080", flat_shading=True),
]
geometries = [gfx.box_geometry(8, 8, 8), gfx.sphere_geometry(5), gfx.torus_knot_geometry(3, 1)]
for row, geometry in enumerate(geometries):
    for column, material in enumerate(meshes):
        mesh = gfx.Mesh(geometry, material)
        mesh.local.position = (column * 14 - 42, row * 14 - 14, 0)
        scene.add(mesh)

positions = np.linspace((-40, -25, 0), (40, 25, 5), 20, dtype=np.float32)
line = gfx.Geometry(positions=positions)
for material in (
    gfx.LineMaterial(thickness=3, color="cyan"),
    gfx.LineSegmentMaterial(thickness=2, color="orange"),
    gfx.LineArrowMaterial(thickness=4, color="pink"),
    gfx.LineThinMaterial(color="gray"),
):
    scene.add(gfx.Line(line, material))
for material in (
    gfx.PointsMaterial(size=6, color="magenta"),
    gfx.PointsGaussianBlobMaterial(size=12, color="lime"),
    gfx.PointsMarkerMaterial(size=9, marker="diamond"),
):
    scene.add(gfx.Points(line, material))
texture = gfx.Texture((np.indices((16, 16)).sum(axis=0) % 2 * 255).astype(np.uint8), dim=2)
scene.add(gfx.Image(gfx.Geometry(grid=texture), gfx.ImageBasicMaterial(clim=(0, 255))))
scene.add(gfx.GridHelper(60, 6))

camera = gfx.OrthographicCamera(110, 80)
canvas.request_draw(lambda: renderer.render(scene, camera))
canvas.draw()
print(hashlib.sha256(np.asarray(canvas.draw()).tobytes()).hexdigest())

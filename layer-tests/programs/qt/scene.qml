// A scene with everything for which Qt Quick has a shader; saves the picture to the file in the last argument.
import QtQuick
import QtQuick.Window

Window {
    id: window
    width: 640
    height: 480
    visible: true
    color: "steelblue"

    Item {
        id: scene
        anchors.fill: parent

        Rectangle {
            x: 20; y: 20; width: 300; height: 200; radius: 30
            border { width: 6; color: "white" }
            gradient: Gradient {
                GradientStop { position: 0; color: "crimson" }
                GradientStop { position: 1; color: "gold" }
            }
        }
        Rectangle {
            x: 350; y: 60; width: 200; height: 200; color: "seagreen"; opacity: 0.5; rotation: 30; antialiasing: true
        }
        // A layer with half the opacity, which Qt Quick draws through a texture.
        Item {
            x: 60; y: 260; width: 520; height: 180; opacity: 0.5
            layer { enabled: true; smooth: true; samples: 4 }
            Rectangle { anchors.fill: parent; color: "black"; clip: true; rotation: 5 }
            Text {
                anchors.centerIn: parent
                text: "vkstash"; color: "white"; font.pixelSize: 80; renderType: Text.NativeRendering
            }
        }
    }

    // Beside the scene that is saved: the distance fields of Qt's glyphs differ by a few pixels from run to run.
    Text { x: 20; y: 440; text: "vkstash"; color: "white"; font.pixelSize: 30; renderType: Text.QtRendering }

    // On a busy machine the first frame may be late.
    onFrameSwapped: if (!later.started) later.started = true

    Timer {
        id: later
        property bool started: false
        interval: 500
        running: started
        onTriggered: scene.grabToImage(function (picture) {
            const file = Qt.application.arguments[Qt.application.arguments.length - 1]
            Qt.exit(picture.saveToFile(file) ? 0 : 1)
        })
    }
}

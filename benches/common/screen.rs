//! A screen without a display: what the window's renderer, on OpenGL, makes of a frame on the first device that EGL
//! has. Without a graphics card that is Mesa's software renderer.
//!
//! Seen on an H100 (driver 580, OpenGL 3.3, 1920 x 1080): the timeline is drawn 0.5 to 2.7 ms after it is handed over,
//! with 1 million slices as with 10 million, and handing over takes 0.1 to 0.5 ms of the frame's thread. "Memory over
//! time" is drawn after 0.6 to 2 ms at rest; in a frame that brings a new picture its texture takes 2.4 to 3.5 ms of the
//! thread and 3 to 5 ms until it is drawn.

#![expect(unsafe_code, reason = "OpenGL is called as the window library calls it")]

use std::ffi::CString;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::{ClippedPrimitive, TexturesDelta};
use egui_glow::Painter;
use egui_glow::glow::{self, HasContext as _};
use glutin::api::egl::context::PossiblyCurrentContext;
use glutin::api::egl::device::Device;
use glutin::api::egl::display::Display;
use glutin::api::egl::surface::Surface;
use glutin::config::{ConfigSurfaceTypes, ConfigTemplateBuilder};
use glutin::context::ContextAttributesBuilder;
use glutin::prelude::{GlDisplay as _, NotCurrentGlContext as _};
use glutin::surface::{PbufferSurface, SurfaceAttributesBuilder};

/// 1920 by 1080 pixels in the device's memory.
pub struct Screen {
    painter: Painter,
    gl: Arc<glow::Context>,
    _surface: Surface<PbufferSurface>,
    _context: PossiblyCurrentContext,
}

impl Screen {
    pub const SIZE: [u32; 2] = [1920, 1080];

    /// Errors: EGL, or a device that draws OpenGL without a display, is missing.
    pub fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let device = Device::query_devices()?.next().ok_or("EGL has no device")?;
        let [width, height] = Self::SIZE.map(|side| NonZeroU32::new(side).expect("not zero"));
        // SAFETY: no handle of a display is handed over; the device is one that EGL named.
        let display = unsafe { Display::with_device(&device, None) }?;
        let template = ConfigTemplateBuilder::new().with_surface_type(ConfigSurfaceTypes::PBUFFER).build();
        // SAFETY: as above; the template names no window.
        let config = unsafe { display.find_configs(template) }?.next().ok_or("no configuration to draw with")?;
        let attributes = SurfaceAttributesBuilder::<PbufferSurface>::new().build(width, height);
        // SAFETY: the configuration is of this display and for such surfaces.
        let surface = unsafe { display.create_pbuffer_surface(&config, &attributes) }?;
        // SAFETY: no window's handle is in the attributes.
        let context = unsafe { display.create_context(&config, &ContextAttributesBuilder::new().build(None)) }?;
        let context = context.make_current(&surface)?;
        let address = |name: &str| CString::new(name).map_or(std::ptr::null(), |name| display.get_proc_address(&name));
        // SAFETY: the context is current on this thread as long as `Screen` lives, and the functions are its own.
        let gl = Arc::new(unsafe { glow::Context::from_loader_function(address) });
        let painter = Painter::new(gl.clone(), "", None, false)?;
        Ok(Self { painter, gl, _surface: surface, _context: context })
    }

    /// The renderer and its version, as OpenGL names them.
    pub fn name(&self) -> String {
        // SAFETY: the context is current, see `new`.
        unsafe { [glow::RENDERER, glow::VERSION].map(|of| self.gl.get_parameter_string(of)) }.join(", OpenGL ")
    }

    /// Draws a frame; the time to hand it over (vertices and textures are copied), and until the device has drawn it.
    pub fn draw(
        &mut self,
        primitives: &[ClippedPrimitive],
        textures: &mut TexturesDelta,
        pixels_per_point: f32,
    ) -> (Duration, Duration) {
        let start = Instant::now();
        self.painter.clear(Self::SIZE, [0.0, 0.0, 0.0, 1.0]);
        self.painter.paint_and_update_textures(Self::SIZE, pixels_per_point, primitives, textures);
        let handed_over = start.elapsed();
        // SAFETY: the context is current, see `new`.
        unsafe { self.gl.finish() };
        (handed_over, start.elapsed())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.painter.destroy();
    }
}

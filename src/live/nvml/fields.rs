//! Figures that NVML has no function of its own for.

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper_sys::bindings::{field_id, nvmlFieldValue_t};

use super::super::source::Absent;
use super::absent;

/// The figures that are read, of the whole device.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// In milliwatts.
    PowerInstant,
    MemoryTemperature,
    /// In KiB, ever growing.
    NvlinkTx,
    NvlinkRx,
    RemappedCorrectable,
    RemappedUncorrectable,
}

/// Stands for all links in fields that exist once a link.
const ALL_LINKS: u32 = u32::MAX;

impl Field {
    /// The id, and the scope.
    fn id(self) -> (u32, u32) {
        match self {
            Self::PowerInstant => (field_id::NVML_FI_DEV_POWER_INSTANT, 0),
            Self::MemoryTemperature => (field_id::NVML_FI_DEV_MEMORY_TEMP, 0),
            Self::NvlinkTx => (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
            Self::NvlinkRx => (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
            Self::RemappedCorrectable => (field_id::NVML_FI_DEV_REMAPPED_COR, 0),
            Self::RemappedUncorrectable => (field_id::NVML_FI_DEV_REMAPPED_UNC, 0),
        }
    }
}

/// Reads one field. The wrapper's own function has no scope, so it knows the first link alone.
///
/// Source: `nvmlDeviceGetFieldValues` and `nvmlValueType_t` in `nvml.h`.
#[expect(unsafe_code, reason = "a call of the driver's library")]
pub fn read_field(device: &Device<'_>, field: Field) -> Result<f64, Absent> {
    let library = device.nvml().lib();
    let Ok(get) = &library.nvmlDeviceGetFieldValues else { return Err(Absent::NotInDriver) };
    // SAFETY: zeros are valid for this structure of numbers.
    let mut asked: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
    (asked.fieldId, asked.scopeId) = field.id();
    // SAFETY: the handle lives as long as `device`, and exactly one structure is passed, which the call fills in.
    let code = unsafe { get(device.handle(), 1, &mut asked) };
    nvml_try(code).and_then(|()| nvml_try(asked.nvmlReturn)).map_err(|error: NvmlError| absent(&error))?;
    // SAFETY: the type says which member the driver has set; the others were zero before, and all are numbers.
    unsafe {
        match asked.valueType {
            0 => Ok(asked.value.dVal),
            1 => Ok(f64::from(asked.value.uiVal)),
            // On 64-bit Linux an unsigned long is as wide as the next.
            2 | 3 => Ok(asked.value.ullVal as f64),
            4 => Ok(asked.value.sllVal as f64),
            _ => Err(Absent::Failed),
        }
    }
}

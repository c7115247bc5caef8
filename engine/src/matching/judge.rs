//! Whether an order's numbers are acceptable to its pair. Nothing is rounded; what does not fit is
//! rejected, in the order of [`RejectReason`]'s own list.

use crate::command::{NewOrder, OrderKind};
use crate::event::RejectReason;
use crate::units::{Decimal, PairDecimals, Price, Quantity, UnfitDecimal};

/// An order's numbers in ticks and lots. A market order has no price.
pub(super) struct Judged {
    pub(super) price: Option<Price>,
    pub(super) volume: Quantity,
}

pub(super) fn judge(
    order: &NewOrder,
    pair_decimals: Option<PairDecimals>,
) -> Result<Judged, RejectReason> {
    if pair_decimals.is_some_and(|fixed| fixed != order.decimals) {
        return Err(RejectReason::DecimalsMismatch);
    }
    let written: Option<&Decimal> = match &order.kind {
        OrderKind::Limit { price, .. } => Some(price),
        OrderKind::Market => None,
    };
    let price = written.map(|price| price.price(order.decimals));
    let volume = order.volume.quantity(order.decimals);
    if matches!(price, Some(Err(UnfitDecimal::Precision))) {
        return Err(RejectReason::PricePrecision);
    }
    if volume == Err(UnfitDecimal::Precision) {
        return Err(RejectReason::VolumePrecision);
    }
    let price = price
        .transpose()
        .map_err(|_| RejectReason::PriceOutOfRange)?;
    let volume = volume.map_err(|_| RejectReason::VolumeOutOfRange)?;
    Ok(Judged { price, volume })
}

"""Classes of characters of IDNA 2008, written by tables_generate.py: their flags, and base85 of deflated varints.

See idn.py.

From the Unicode Character Database, (c) Unicode, Inc., Unicode License v3.
"""

from __future__ import annotations

from typing import Final

CLASSES: Final = {
    "S1@-": ("c-qrt0001704@"),
    "E1": ("c-k}I1ONbQ06G"),
    "L1": ("c-l+kV&Vk=0k;5q"),
    "L1@l": ("c-qTh0002m0Br"),
    "O3@\xb7": ("c-q^}$N&HWDge0"),
    "L3": (
        "c-p(qD9*&r#6T)!VPIl}v%rv<B>l`tG&2JWBP)nxVup${gH2}!o6XF`#Kw)Pn-Rl2pnetxCUPMg&|aXKtT2884;w$DEW=ku6lIS3gpJ}N%K^;zJx67z#lWt{!~g*ARRxO"
    ),
    "O3": ("c-q^^%E-eh%K!icz5wz"),
    "N3mcy": ("c-m`VV_{-rW?*7qVq|CFU}a?l(Oe7@*_Z$l<pE*"),
    "N3mc": ("c-m`aW8h$9VqjumW@TbyXJ&@b98B_4m{>ZQxeVD^I0YHf*qB+F8JU<>804iEGIDS+003gJ1PT"),
    "L3g": ("c-s5O#=ykD!ob2L%pjx031q{d5Cba%Ga~>eDFK5"),
    "O3@\u0375g": ("c-s5Q#sB~U?g0D"),
    "N3mch": ("c-ouDt;EF0!pOwH4#WTn*8tN"),
    "N3mcyh": ("c-q^-&A`mW%)rdR#0UTgegMt"),
    "R3h": ("c-p(bEyc<V00f)>{r"),
    "R3@\u05f3h": ("c-s5S%?JPj^8o+"),
    "R3ji": ("c-mXQ!@$PC#K6SD%EQFQ#Hhl^#V4%F#K;8_W7K3~W)Nm#V`k!D0`nEPSooNknHZRvm|49Q08>H&cK"),
    "R3": ("c-mXY!w}3+$SBU(#Hh-{z|X182ml^%0)q"),
    "R3i": ("c-mXU!_36M#K6WZ#-Pb0DyYuD%mLyvGcqwqGAc5#vam96F@QxF<QRCE1Q=Nvm>5|Y0ZwxQ1^"),
    "A3": ("c-niw!wCQa!~pg"),
    "E3": ("c-s5G%LxDi_5lX"),
    "N3m": ("c-mXW&jkPi9RR="),
    "R5": (
        "c-m_a5M^cHVqjsgWME~GWnyAbV~}B3^_rQXSD2NVfk~T*k%fU-j9ZLL&Pj-"
        "gkz15o(%qb$(UC!bnTd%>Mq7qOMvH-!QH)X66euUu$LLXE)W@vJ&gd`0%^=5+!@$PC$)F(CwSoBvV>=@QD<=Srb`2x"
    ),
    "N5mc": (
        "c-j?>txH2;97dn#`Mvjj@6>U(q{2jueiSVZajw}GwxG$V78Qp7fS?R)f-"
        "q2<!Qf!UzF@J4h*=oZVi0Ci@bk*y)N`6SQ!L5Ns1&A$RjAn|(INH>qu9iknAmn|g#{?3h>S%vmQlwF?j!xgxFwFLM{+F~X0u8*Fdy%tiW5ph@(}_YZ&-"
        "dCQ=j84XV<Spl$l_aeakPXL3|UE(NpMNFu4nOCYp4|*>pOo7TIxjU_9l(oPA1ltYQmSM2%D4xd&nd>;IK^V&8Bm{06ko=obCUIq|gYl`}8OHRL~pCF>3P9sd"
        "WPf-iI"
    ),
    "R5i": ("c-j?<u?>JQ5X5}<Pbh)}qGlJA-6&}?0J|_6p|dRe-6%2@d&MgI!eJAdxv#{-Wmb~l(TINV7<$l?rqiKd(g(811mp"),
    "R5ji": ("c-ke&u?c`M6h+bZ-}@0lKm+z-`ap)Xb_Zv00~c`zJ4*vrm&3iX3yeepB`lE7aWDmr@8&*<P96rL*9hU^O6*;^N~wVsAp75as(c?R2bT"),
    "N5m": (
        "c-lQtKTF$D6g}tM_kJ&be)(fdk`hRQAZiD-w$_#ek_=fy5EOLjQV>LNQ0Fck>gHbUQu`6wt)(BqZ&2vc$+e}Bu{RFoz<n3)x%ZxX-rEOyiIgfTvx~8H+2x3l"
        "#)uvRa*l%7W-"
        "AIq$mURC&$BTC`pP6Vy>A;$c6i^7T?wyXR!7vKzkzjrCTdakA4zcN9HK(<@lkVDg|UUdIeYh*WJOp(_(Fc5B1^a<22d7YDe;o_EC?BfoHuj516L~zlHvBfP("
        "+&_i9VJ>r?jRGrz~R<XT*vZpWuvB!f^ea5;K?cr;HbsRpxwZIgU(mhtCUTS7>-Gb85mTBE&}=VagPE8WVrhl50IkGs1~av3M-"
        "=6E9SFCtlI_F8bETZk^e~Xj;pKE6Wu38y+dXiD71gyB4tJH~bWT+|a*b4_~i|UkfYN{MOiv>qXSi3ab7Chjl2o"
    ),
    "L5m": (
        "c-j?@ze)pP5X5I@@4L$-U_c}g3l;1GNAMyfCW5sOVB-rY;=czF1lxd!h?Nfz-$Ssout_1lfYx@-"
        "@v*QweDm9#+g0o$RE9X@gav~mjCJ5DA=cbOqg}brB<*M#Q;z-H14nk`ZfYK~$k+HT?qfkF6bP=fqsV)V6zJ%A1+79{Dnf}$-"
        "{crV+u$<Y6C)@SX4phBBqY>D$pz8F;!zA7aoC*`6)GlQbnfb7V8oes<@h1hJUqP7;tetIo@?|uL8UgjI9A42YRiI;u)W6*s$_;!7HF)2U$Th6rR4@JUO3F1?"
        "EiCqwoIPe6A9a_u)!Ig!srvUZ2n~CWcYH*7uNsTk|II"
    ),
    "L5": (
        "c-qZWzi$**5S}+P@4cPfz1`bA-<~gKeYVfX9cSY+!ojJK2u4^G5h+lT2GJo!X^^0yL;O&r&{9yPNRbp#N<b8dA5uDmKuQ-H8YA%s&}N<i6C!~WMM%-"
        ";J?)#_`M#O&?aZa}Q-&5ajTOwTCqr#?2uutGl*T3rh_$c11Z4UU3t<r<V(=N{H}Nr~Z{oMT3#gb-0$N5SHVA0gFmlp?N-"
        "D1i73K^x7;vo=U|;zpM9&!vIhisrjYzX``oc<LUBMlUG#fW3<pd#fv5W#bV@G%8On?|QPiyA&xh);#-"
        "?0R77oQ!sV{ffi$tFUZHZ*R1On3n|kw{C`eWYt{=ak`Rx_`bqFHWQ{n3~vi$Gne<tjvo%MQrY01Pd%fInB#QlG)LaI9;+`FT*NcTNW=FoLnhA%ec<gXZp49>"
        "UV@zH32tpz>unrb&B(+0snu-WIjI2BZdR;Yg_M>U$a^LXVAKjU!RG#*%|``2ejU;Vu$b8FCn+P24sAuckfSgRW|n0RpgoKU$L}4@YWtV`1dpZ$BKN|=`DIt@"
        ";#^y{;9Bj4SwfT8w#CCSbYikzFNAL1KJ>|4zAR(XPm~-G@`fSEA6O#;r@sNcNZy+uwhAUThX!8Ves`rCjO_do*qxIi=`rE)aakTLc4f%wU@Qf`$1Au-}-"
        "OPkxcq_DErr9%)(&VxPfsy@m;uBtW9)05M;~q(~-perdTak78n|noYEL!vB2pQ+uf_N60MZ-?tp4RgMTz@Epp<pH)*RrB0rmzF%2edNM$(AAd>Y@D)H{NS-N"
        "KSR9;7w*XT}Di_7Jxr`<&m2$Eq06{LHoptbqEPN&5Zn$oS$1gb%$v&d_wV=q_0n^@j4aQwR8G7rqdsZ-"
        "70q9?uI`S#&k9L=KmFLc$dNkI*Xr(F5i_AZ!X4i2Y>Oz-7H{*a~U`Q{IFx%}3p97VFVG5d^`6Gtk*eXLtcR<^Vt3cCIU9$rx2"
    ),
    "N5mcy": ("c-q?|#L&P9MobK|m>A};F)%UkFwAsfTyTJy0RUKT1>O"),
    "N5mv": (
        "c-"
        "lKF#L&Qq1?4dcGQ0(|PBAiUWn{d?%dn4;p^uf}G!w%WWrp^zj0|cFGZ+~*u`qmRWVp14k)fT3L5qQ(!HS`ZaT_zk4JMG@zhD#I05vi(v@$U)Vq^$m5M~HsSk"
        "1~9!~g)9(i+7"
    ),
    "L5my": ("c-q@1%pl3|oC!#z1MzD{24ThwAftjofZ>`HL+1x(Am=6%124lTMutXq1_0lx30?"),
    "N5my": ("c-p%r#&Dm5fr+7<;b$WY!(?^_04z2HWd"),
    "N5mvy": ("c-lK9%>V!bmjLD"),
    "L5mv": ("c-ot)#~{xzfrBB9!GrO^EGC9rhK37_45bV+m>6ENF|@NXG_f%N0HKNqb^"),
    "L5ji": ("c-mWF5W%m=#4v3>lOX^RxB|l"),
    "L5g": ("c-mWL#d3|Aos*TDofAefFd;z`Mpgy^1}-KRMouOsW`2hE)0h|lcZ38x"),
    "O5@\u200c": ("c-rf6U;qFDCjiX"),
    "O5@\u200d": ("c-rfAU;qFDDge#"),
    "O5": ("c-mVZ!*JmPBf|_vj!Xss9`OU$"),
    "L5k": ("c-m`CU|?df3T0<xj$~&1#K_;svftS8|6<1eEsTsz3`~sN3?P!3Y1eB;hTaAsgN=!iX%UkilMwUFxs3PEGAZs*;JC}k+^EaH!D@lVDK!ArDidx"),
    "O5@\u30fb": ("c-s4&$N&HXwgFu"),
    "L5j": ("c-s4Pfr$YC20#JD"),
    "N5mch": ("c-ouyjhO)e1!Mu3"),
    "R5j": ("c-lKVm4$(eVI>O#01h_-9s"),
    "A5": ("c-q@Ai-i*a1fv01"),
    "L5mck": ("c-s4LpOp~+25bS="),
}

"""The programs that the language page shows, and others of their kind, by name."""

EXAMPLES: dict[str, str] = {
    "softmax": """
        in A_{16,512};out C_{16,512};
        L^{16,512}_{i,j}[D_i max=A_{i,j};]
        L^{16,512}_{i,j}[E_i+=exp(A_{i,j}-D_i);]
        L^{16,512}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]
    """,
    "matmul and bias": """
        in A_{64,128},W_{128,32},X_{32};out C_{64,32};
        L^{64,32,128}_{i,j,k}[D_{i,j}+=A_{i,k}*W_{k,j};]
        L^{64,32}_{i,j}[C_{i,j}=D_{i,j}+X_j;]
    """,
    "guarded tail": "in A_{10};out C_{10};L^{2,8}_{a,b}(a*8+b<10)[C_{a*8+b}=A_{a*8+b};]",
    "staged tiles": """
        in A_{512,512},W_{512,512};out C_{512,512};
        B^{16,16}_{by,bx}[S^{f32,s}_{32,33};T^{f32,s}_{32,33};R^{f32,l}_{32,32};
          L^{16}_k[B^{32,32}_{ty,tx}[S_{ty,tx}=A_{by*32+ty,k*32+tx};T_{ty,tx}=W_{k*32+ty,bx*32+tx};]
                   B^{32,32}_{ty,tx}L^{32}_m[R_{ty,tx}+=S_{ty,m}*T_{m,tx};]]
          B^{32,32}_{ty,tx}[C_{by*32+ty,bx*32+tx}=R_{ty,tx};]]
    """,
    "register tiles": """
        in A_{2048,2048},W_{2048,2048};out C_{2048,2048};
        B^{16,16}_{by,bx}[S^{f32,s}_{16,132};T^{f32,s}_{16,132};R^{f32,l}_{16,16,8,8};
          B^{16,16}_{ty,tx}U^{8,8}_{u,v}[R_{ty,tx,u,v}=0.0;]
          L^{128}_k[
            B^{16,16}_{ty,tx}[G^{f32,l}_8;
              U^2_cV^4_e[G_{c*4+e}=A_{by*128+(ty*16+tx)//2,k*16+(ty*16+tx)%2*8+c*4+e};]
              U^8_d[S_{(ty*16+tx)%2*8+d,(ty*16+tx)//2}=G_d;]
              U^2_cV^4_e[T_{(ty*16+tx)//16,(ty*16+tx)%16*8+c*4+e}=W_{k*16+(ty*16+tx)//16,bx*128+(ty*16+tx)%16*8+c*4+e};]]
            B^{16,16}_{ty,tx}U^{16}_m[F^{f32,l}_8;H^{f32,l}_8;
              U^2_aV^4_e[F_{a*4+e}=S_{m,ty*8+a*4+e};]
              U^2_aV^4_e[H_{a*4+e}=T_{m,a*64+tx*4+e};]
              U^{8,8}_{u,v}[R_{ty,tx,u,v}+=F_u*H_v;]]]
          B^{16,16}_{ty,tx}U^{8,2}_{u,w}V^4_e[C_{by*128+ty*8+u,bx*128+w*64+tx*4+e}=R_{ty,tx,u,w*4+e};]]
    """,
    "first value": "in A_8;out C_7;L^{7}_{i=1}[C_{i-1}=A_i;]",
    "gather": "in A_{9,4},I^{i32}_5;out C_{5,4};L^{5,4}_{i,j}[C_{i,j}=A_{I_i,j};]",
    "paths": "in A_{2,3};out C_{2,3};L^{2,3}_{i,j}[C_{i,j}=A_{i,j};]",
}
